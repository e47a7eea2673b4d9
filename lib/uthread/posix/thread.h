/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pthread_create(3), pthread_join(3) and their kin, for user-level threads. None is to be called
 * deferred.
 */
#ifndef TEK_UTHREAD_POSIX_THREAD_H
#define TEK_UTHREAD_POSIX_THREAD_H

#include "base/until.h"
#include "uthread/posix/record.h"

#include <pthread.h>
#include <stdbool.h>

/*
 * By a user-level thread: makes one. `c11`: routine is a thrd_start_t. `call_site`: where in the
 * program. 0, EAGAIN: there is no memory, EINVAL, EPERM: invalid attributes. *handle is set before
 * the new thread runs.
 */
int tek_ut__posix_create(pthread_t *handle, const pthread_attr_t *attr, void *(*routine)(void *),
			 void *argument, bool c11, const void *call_site);

/*
 * Waits for a user-level thread, at most until then; by any thread. 0, ESRCH, EINVAL (detached,
 * another thread joins it already, or `until` is no time), EDEADLK, ETIMEDOUT. A cancellation
 * point.
 */
int tek_ut__posix_join(struct tek_posix *posix, void **result, struct tek_until until);

/* pthread_tryjoin_np(3): EBUSY if it has not ended. */
int tek_ut__posix_try_join(struct tek_posix *posix, void **result);

int tek_ut__posix_detach(struct tek_posix *posix);

/* sched_yield(2): other ready threads run first. By a user-level thread. */
void tek_ut__posix_yield(void);

/* The calling thread ends: objects on its stack that belong to other threads are given back. */
void tek_ut__posix_leave_stack(struct tek_posix *self);

#endif
