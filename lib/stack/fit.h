/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The rules of fitting sizes, for kernel threads (stack/size.h) and user-level ones
 * (uthread/posix/fit.h).
 */
#ifndef TEK_STACK_FIT_H
#define TEK_STACK_FIT_H

#include "stack/kind.h"

#include <stddef.h>

void tek__fit_start(void);

/*
 * The size of a stack of this kind, in bytes, TLS included; 0: the program's own size. It does not
 * limit the size of a kind that overflowed. tek__fit() does so: such a kind gets at least the
 * program's own size, and at most four times that.
 */
size_t tek__size_for(const struct tek_known *known);

/* The smallest size that `--stack auto` chooses, unless the user sets another one. */
size_t tek__fit_floor(void);

/* As tek__size_for(), for a thread whose own size is `programs` bytes. */
size_t tek__fit(const struct tek_known *known, size_t programs);

#endif
