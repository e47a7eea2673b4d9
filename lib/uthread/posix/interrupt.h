/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The two events that can interrupt a user-level thread of a pthread program: a signal for it alone
 * (pthread_kill), and its cancellation.
 *
 * A function that waits and is a cancellation point calls tek_ut__cancel_point(), then
 * tek_ut__wait_interruptible(). When that returns TEK_INTERRUPTED the function releases what it
 * holds, or takes again what it promises (the mutex of a condition variable), and calls
 * tek_ut__interrupted(). Nothing here may be called between tek_ut__enter() and tek_ut__leave().
 * For kernel threads all of this does nothing.
 */
#ifndef TEK_UTHREAD_POSIX_INTERRUPT_H
#define TEK_UTHREAD_POSIX_INTERRUPT_H

#include <stdbool.h>

/* pthread_testcancel(3): does not return if the thread has to be cancelled. */
void tek_ut__cancel_point(void);

/* Whether tek_ut__cancel_point() would not return. */
bool tek_ut__cancel_is_due(void);

/*
 * The calling thread's wait was interrupted: runs the handlers of signals for it, and ends it if it
 * is cancelled. Some may have run before this, as soon as the thread left the engine: the numbers
 * below show whether the waiting call has to fail with EINTR.
 */
void tek_ut__interrupted(void);

/*
 * The same by a function that is no cancellation point (pthread_mutex_lock): runs the handlers, and
 * does not end the thread; a cancellation stays due.
 */
void tek_ut__interrupted_by_signal(void);

/*
 * The number of the program's signal handlers that have run on the calling user-level thread so
 * far, sent to it alone or to the process. Some calls fail with EINTR after any handler, with
 * SA_RESTART or without: poll, sleep (signal(7)). A call that the kernel ended with EINTR while
 * this stayed the same was interrupted by the engine.
 */
unsigned long tek_ut__handlers_run(void);

/*
 * The number of those installed without SA_RESTART: when one has run meanwhile, any call fails
 * with EINTR.
 */
unsigned long tek_ut__failing_handlers_run(void);

#endif
