/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that the C library holds: in a call that the engine does not know, which may wait in the kernel (msgrcv, a
 * condition variable of several processes).
 *
 * A user-level thread can be cancelled there, because the C library's code is made to be unwound
 * from its cancellation points.  The C library knows by one of two ways that a thread is in one.
 * A trial shows by which:
 *
 * - It sets a bit in its structure of the thread for the time of the call (before glibc 2.41).
 *   Debuggers are told where the word lies, and the trial shows which bit it is.
 * - It makes all such calls by one instruction.  The trial shows its address.
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
 * By the first thread, once there is another kernel thread, without which the C library does not
 * heed cancellation at all, and the tick has its handler.
 */
void tek__held_start(void);

enum tek_held_by tek__held_by(void);

/*
 * Whether it is worth stopping another thread to cancel it.  Only the thread's own signal handler
 * sees at which address it is; then it is stopped to find out, less and less often (router.c).
 */
bool tek__held_may_end(const struct tek_uthread *thread);

/*
 * A tick has found the thread in code that cannot be left, outside the engine: it takes signals that are for it, as a
 * kernel thread would, and ends if it can be cancelled there.  For tek__preempt_held.
 */
void tek__held(struct tek_uthread *thread, ucontext_t *context);

#endif
