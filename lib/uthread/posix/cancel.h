/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Cancellation: pthread_cancel(3) and its settings; the points where it takes effect are in
 * interrupt.h.
 */
#ifndef TEK_UTHREAD_POSIX_CANCEL_H
#define TEK_UTHREAD_POSIX_CANCEL_H

#include "uthread/posix/record.h"

/* Not deferred. Does not return if the caller cancels itself asynchronously. */
void tek_ut__cancel(struct tek_posix *posix);

/*
 * pthread_setcancelstate(3) and pthread_setcanceltype(3) of the calling user-level thread. `old`
 * may be NULL.
 */
int tek_ut__cancel_set_state(int state, int *old);
int tek_ut__cancel_set_type(int type, int *old);

/* Whether it has to be cancelled, at a cancellation point: flags of a record. */
static inline bool tek_ut__cancel_is_due_for(unsigned int flags)
{
	return (flags & (TEK_POSIX_CANCELLED | TEK_POSIX_DISABLED | TEK_POSIX_EXITING)) ==
	       TEK_POSIX_CANCELLED;
}

/* Whether it has to be cancelled wherever it is. */
static inline bool tek_ut__cancel_is_due_at_once(unsigned int flags)
{
	return (flags & (TEK_POSIX_CANCELLED | TEK_POSIX_ASYNC | TEK_POSIX_DISABLED |
			 TEK_POSIX_EXITING)) == (TEK_POSIX_CANCELLED | TEK_POSIX_ASYNC);
}

#endif
