/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Handles a thread that runs into the guard page of its stack: the overflow is reported, and then
 * the program's own handler, or the kernel, gets the signal as if TEK were not there
 * (stack/action.h). With --stack grow the reserve is tried first (stack/grow.h).
 */
#ifndef TEK_STACK_OVERFLOW_H
#define TEK_STACK_OVERFLOW_H

#include <signal.h>
#include <stdbool.h>
#include <ucontext.h>

/* Installs TEK's handler of SIGSEGV. Cheap if it is installed. Needs no lock. */
void tek__overflow_watch(void);

/*
 * In the handler of SIGSEGV.  True: the thread has more stack now and can continue.  False: the
 * caller passes the signal on; an overflow has been reported.
 */
bool tek__overflow_at(const siginfo_t *info, ucontext_t *context);

#endif
