/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stacks that the program gave its threads (struct tek_uthread_creation.stack).
 *
 * A detached thread reports that it is done, and returns; the program then gives its stack to the
 * next thread. With the C library's threads that takes so long that the first one is gone by then.
 * Here it may be sooner, and the first one may have been preempted meanwhile. So a new thread waits
 * until no thread is on its stack any more.
 */
#ifndef TEK_UTHREAD_OWN_STACKS_H
#define TEK_UTHREAD_OWN_STACKS_H

#include "uthread/thread.h"

/*
 * This thread will be on the stack that begins there. Between tek_ut__enter() and tek_ut__leave(),
 * as the next one.
 */
void tek_ut__own_stack_taken(struct tek_uthread *thread, void *low);

/* It has ended, and is not on it any more. */
void tek_ut__own_stack_left(struct tek_uthread *thread);

/*
 * Until no thread is on the stack that begins there: 0, or EAGAIN: after ten seconds a thread still
 * is. Not between tek_ut__enter() and tek_ut__leave().
 */
int tek_ut__own_stack_await(const void *low);

/* In the child of fork(): only the calling thread is on one. */
void tek_ut__own_stacks_after_fork(void);

#endif
