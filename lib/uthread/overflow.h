/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A user-level thread runs into the guard of its stack: that is reported, as libtek.so does for kernel threads
 * (stack/overflow.h), and then the program's own handler, or the kernel, gets the signal as if nobody had looked.
 *
 * The handler runs on an alternate stack of the carrier.  One that the program sets in its place serves as well, if it is
 * large enough.  Of the first thread, which has the program's own stack, and of stacks that the program brings nothing
 * is known.
 */
#ifndef TEK_UTHREAD_OVERFLOW_H
#define TEK_UTHREAD_OVERFLOW_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

struct tek_carrier;

/* At the start, before any carrier. */
void tek__overflow_start(void);

/*
 * The calling kernel thread, a carrier, has an alternate stack, unless it has one already: `stack`, which an earlier
 * one had that has ended, or a new one (NULL).  Returns which; NULL: there is none.
 */
void *tek__overflow_give_stack(void *stack);

/*
 * At the end of a handler in which the calling thread may have been switched away from and come back: it is not on the
 * kernel thread any more that it was interrupted on, which `began` carried.  The kernel, when the handler returns,
 * gives a kernel thread the alternate stack that the interrupted one had (sigreturn(2)); two of them would share one,
 * on which the C library's own handlers run.
 */
void tek__overflow_keep_stack(const struct tek_carrier *began, ucontext_t *context);

/* What is known of the calling thread's stack. */
struct tek_overflow_stack {
	const char *low; /* its lowest byte; NULL: not known */
	size_t bytes;
	uintptr_t function; /* what the thread runs */
};

/*
 * In the handler of SIGSEGV: if the calling thread has run out of its stack that is reported.  Returns whether.  May
 * jump: a fault that comes while it reports is its own.
 */
bool tek__overflow_at(const siginfo_t *info, ucontext_t *context,
		      const struct tek_overflow_stack *stack);

/* For programs whose sigaction(2) we do not see: a handler of ours, if there is none. */
void tek__overflow_watch(void);

#endif
