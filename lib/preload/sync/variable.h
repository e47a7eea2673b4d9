/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A variable of the environment, also before the C library has its own: a program's .preinit_array
 * comes first.
 */
#ifndef TEK_PRELOAD_SYNC_VARIABLE_H
#define TEK_PRELOAD_SYNC_VARIABLE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Its value, of less than `size` bytes; else empty, and false: it is too long.  Allocates nothing;
 * errno stays.
 */
bool tek_sync__variable(const char *name, char *value, size_t size);

#endif
