/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Routines that run once, by the first thread to arrive. A control word has no room for waiters, so
 * they are in one of a few queues, by the word's address.
 *
 * A routine that does not come back, because its thread is cancelled or it throws, has not run.
 * Nor has one that another thread was in when the process forked, in the child.
 */
#ifndef TEK_UTHREAD_ONCE_H
#define TEK_UTHREAD_ONCE_H

#include <stdatomic.h>

/*
 * The values of a control word: 0 at first, else a number of forks with a bit, or this. glibc's
 * word has the same 0 and 2.
 */
#define TEK_ONCE_DONE 2

static inline int tek_ut__once_is_done(atomic_int *control)
{
	/* Acquire: the effects of the routine are seen. */
	return atomic_load_explicit(control, memory_order_acquire) == TEK_ONCE_DONE;
}

/*
 * Returns when the routine has run, by the caller or another thread. Not between tek_ut__enter()
 * and tek_ut__leave().
 */
void tek_ut__once(atomic_int *control, void (*routine)(void));

/* In the child of fork(). */
void tek_ut__once_after_fork(void);

#endif
