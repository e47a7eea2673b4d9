/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The environment without libtek.so in LD_PRELOAD.
 *
 * Allocates nothing, so that it can be used after fork() and vfork().
 */
#ifndef TEK_EXEC_PRELOAD_LIST_H
#define TEK_EXEC_PRELOAD_LIST_H

#include <stddef.h>

/* Bytes that the result needs; 0: there is no LD_PRELOAD, the environment is good as it is. */
size_t tek__preload_list_size(char *const environment[]);

/* The result, in `memory` of that many bytes; its other entries are those of `environment`. */
char *const *tek__preload_list_without_tek(char *const environment[], void *memory);

#endif
