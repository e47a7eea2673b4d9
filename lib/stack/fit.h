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
 * The size for a stack of which so much is known, in bytes, TLS included; 0: the program's own.
 * A kind that overflowed gets the program's own if that is larger, and no more than four times
 * that: tek__fit() does it.
 */
size_t tek__size_for(const struct tek_known *known);

/* No stack of auto is smaller, unless the user says so. */
size_t tek__fit_floor(void);

/* The same where the program would have it be so large; 0: the program's own. */
size_t tek__fit(const struct tek_known *known, size_t programs);

#endif
