/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that the C library holds: in a call that the engine does not know, which may wait in the
 * kernel (msgrcv, a condition variable of several processes).
 *
 * A user-level thread can be cancelled there, because the C library's code is made to be unwound
 * from its cancellation points. The C library marks a thread in one by one of two ways. A trial
 * shows which:
 *
 * - It sets a bit in its structure of the thread for the time of the call (before glibc 2.41). Its
 *   data for debuggers has the place of the word, and the trial shows which bit it is.
 * - It makes all such calls by one instruction. The trial shows its address.
 */
#ifndef TEK_UTHREAD_POSIX_HELD_H
#define TEK_UTHREAD_POSIX_HELD_H

#include "uthread/posix/record.h"

#include <stdbool.h>
#include <ucontext.h>

/* How the C library's calls that wait can be recognised. */
enum tek_held_by {
	TEK_HELD_BY_NOTHING, /* not at all: they cannot be cancelled */
	TEK_HELD_BY_NOTE,
	TEK_HELD_BY_ADDRESS,
};

/*
 * By the first thread, once there is another kernel thread and the tick has its handler. Without
 * another kernel thread the C library ignores cancellation.
 */
void tek_ut__held_start(void);

enum tek_held_by tek_ut__held_by(void);

/*
 * Whether it is worth stopping another thread to cancel it. Only the thread's own signal handler
 * sees the address where it is. So it is stopped to check that, less and less often (router.c).
 */
bool tek_ut__held_may_end(const struct tek_uthread *thread);

/*
 * A tick has found the thread in code that cannot be left, outside the engine: the thread takes its
 * signals, as a kernel thread would, and ends if it can be cancelled there. For
 * tek_ut__preempt_held.
 */
void tek_ut__held(struct tek_uthread *thread, ucontext_t *context);

#endif
