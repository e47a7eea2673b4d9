/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The program's handlers, called by one of ours.
 *
 * A handler that the program installs is kept here; the kernel is given ours, which finds out where the signal has
 * come:
 *   - while the thread runs the program's code: the handler is called, and the thread's mask is the handler's meanwhile;
 *   - the same, but it is for the process and the first thread takes it: router.h passes it on;
 *   - in the engine, or on a kernel thread that has no thread to run: a handler could not call anything there, so the
 *     signal is put off: router.h finds a thread for it;
 *   - an error of the program itself (SIGSEGV of an instruction): at once, wherever that is.
 *
 * A thread is not preempted in a handler: the tick is blocked until it returns.  If it has interrupted the C library
 * (zones.h), preemption is deferred as well, so that a handler that calls sem_post() does not give way in the middle of
 * malloc().  A handler may be left by siglongjmp(), which tek__action_leave() makes up for.
 */
#ifndef TEK_UTHREAD_POSIX_ACTION_H
#define TEK_UTHREAD_POSIX_ACTION_H

#include "uthread/posix/record.h"

#include <setjmp.h>
#include <signal.h>

/*
 * sigaction(2): 0, or -1 and errno.  By any thread, before the engine runs too,
 * and in signal handlers.
 */
int tek__action_set(int number, const struct sigaction *action, struct sigaction *old);

/* When the engine runs: SIGSEGV comes to us first, so that an overflow can be reported (uthread/overflow.h). */
void tek__action_start(void);

/* What siginterrupt(3) has said: whether signal(3) leaves out SA_RESTART. */
void tek__action_interrupt(int number, bool interrupts);
bool tek__action_interrupts(int number);

/* Whether nothing happens when this signal comes: it is ignored, by the program or by default. */
bool tek__action_ignores(int number);

/*
 * Before a longjmp(3) by the calling thread: handlers that it is in are left, unless what it jumps to lies in
 * them.  `env` as it is given to longjmp().
 */
void tek__action_leave(const struct __jmp_buf_tag *env);

#endif
