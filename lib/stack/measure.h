/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How much of a stack was used.  What lies in pages that are not present was not; of the lowest
 * present one only what differs from what was there before the thread began.  A page that is
 * not present is never read, because reading makes it present.
 */
#ifndef TEK_STACK_MEASURE_H
#define TEK_STACK_MEASURE_H

#include "stack/use.h"

/* The calling thread's, before it runs: clean what an earlier one left below the caller's frame. */
void tek__measure_prepare(struct tek_stack *stack);

/* The calling thread's. False: not known. No lock, no allocation; async-signal-safe. */
bool tek__measure_self(const struct tek_stack *stack, struct tek_stack_use *use);

/* Another's of this process, which may end meanwhile: reads by system calls only. */
bool tek__measure_other(const struct tek_stack *stack, struct tek_stack_use *use);

/* In the child of a fork. */
void tek__measure_forget(void);

#endif
