/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What happens when a thread runs into the guard of its stack: it is reported, and then the
 * program's own handler, or the kernel, gets the signal as if TEK were not there.  With --stack
 * grow the reserve is tried first (stack/grow.h).
 */
#ifndef TEK_STACK_OVERFLOW_H
#define TEK_STACK_OVERFLOW_H

/* Have TEK's handler of SIGSEGV in place; once a process. Needs no lock. */
void tek__overflow_watch(void);

#endif
