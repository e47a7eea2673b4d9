/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A user-level thread runs into the guard page of its stack: that is reported, as libtek.so does
 * for kernel threads (stack/overflow.h). Then the program's own handler, or the kernel, gets the
 * signal unchanged.
 *
 * The handler runs on an alternate stack of the carrier. One that the program sets in its place
 * serves as well, if it is large enough. The first thread, on the program's own stack, and stacks
 * of the program are not covered.
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
void tek_ut__overflow_start(void);

/*
 * The calling kernel thread, a carrier, gets an alternate stack, unless it has one already:
 * `stack`, that of an earlier carrier that has ended, or a new one (NULL). Returns it; NULL: there
 * is none.
 */
void *tek_ut__overflow_give_stack(void *stack);

/*
 * At the end of a handler in which the calling thread may have been switched away from and back. It
 * may have left the kernel thread that it was interrupted on, which `began` carried. On return from
 * the handler the kernel gives a kernel thread the alternate stack of the interrupted one
 * (sigreturn(2)). Two kernel threads would then share one, on which the C library's own handlers
 * run.
 */
void tek_ut__overflow_keep_stack(const struct tek_carrier *began, ucontext_t *context);

/* The known data of the calling thread's stack. */
struct tek_overflow_stack {
	const char *low; /* its lowest byte; NULL: not known */
	size_t bytes;
	uintptr_t function; /* the start routine of the thread */
};

/*
 * In the handler of SIGSEGV: if the calling thread has run out of its stack that is reported.
 * Returns whether. May jump: a fault during the report is its own.
 */
bool tek_ut__overflow_at(const siginfo_t *info, ucontext_t *context,
			 const struct tek_overflow_stack *stack);

/* For programs that call sigaction(2) past us: installs a handler of ours, if there is none. */
void tek_ut__overflow_watch(void);

#endif
