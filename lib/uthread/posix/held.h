/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that the C library holds: in a call that the engine does not know, which may wait in the kernel (msgrcv, a
 * condition variable of several processes).
 *
 * Before it waits in a cancellation point the C library notes in its structure of the thread that it can be cancelled
 * at once, and its code is made to be unwound from there.  So a thread of ours can be, too, and we only have to
 * find that note: debuggers are told where it lies, and which bit it is, a trial shows.
 */
#ifndef TEK_UTHREAD_POSIX_HELD_H
#define TEK_UTHREAD_POSIX_HELD_H

#include "uthread/posix/record.h"

#include <stdbool.h>
#include <ucontext.h>

/* By the first thread. If the note is not found such calls cannot be cancelled. */
void tek__held_start(void);

/* Whether the C library lets the thread be cancelled just now, where it is. */
bool tek__held_can_end(const struct tek_uthread *thread);

/*
 * A tick has found the thread in code that cannot be left, outside the engine: it takes signals that are for it, as a
 * kernel thread would, and ends if it can be cancelled there.  For tek__preempt_held.
 */
void tek__held(struct tek_uthread *thread, ucontext_t *context);

#endif
