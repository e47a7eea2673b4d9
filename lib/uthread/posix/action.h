/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The program's signal handlers, which the engine's handler calls.
 *
 * A handler that the program installs is stored here. The kernel gets the engine's handler, which
 * checks where the signal has arrived:
 *   - while the thread runs the program's code: the handler is called, and the thread's mask is the
 *     handler's meanwhile;
 *   - the same, but it is for the process and the first thread takes it: router.h passes it on;
 *   - in the engine, or on a kernel thread that has no thread to run: a handler could not call
 *     anything there, so the signal is deferred: router.h finds a thread for it;
 *   - an error of the program itself (SIGSEGV of an instruction): at once, at any place.
 *
 * A thread is not preempted in a handler: the tick is blocked until it returns. If the handler has
 * interrupted the C library (sections.h), preemption is deferred as well: a sem_post() in it must
 * not yield in the middle of malloc(). A handler may be left by siglongjmp();
 * tek_ut__action_leave() restores the state then.
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
int tek_ut__action_set(int number, const struct sigaction *action, struct sigaction *old);

/*
 * When the engine runs: SIGSEGV arrives here first, so that an overflow is reported
 * (uthread/overflow.h).
 */
void tek_ut__action_start(void);

/* The setting of siginterrupt(3): whether signal(3) leaves out SA_RESTART. */
void tek_ut__action_interrupt(int number, bool interrupts);
bool tek_ut__action_interrupts(int number);

/* Whether this signal has no effect: it is ignored, by the program or by default. */
bool tek_ut__action_ignores(int number);

/*
 * Before a longjmp(3) by the calling thread: leaves its handlers, unless the target of the jump
 * lies in them. `env` as it is given to longjmp().
 */
void tek_ut__action_leave(const struct __jmp_buf_tag *env);

#endif
