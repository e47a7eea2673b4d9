/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Condition variables.  One that is all zero is ready for use.
 *
 * Who waits enters the list before he unlocks the mutex, so whoever locks it afterwards finds him: no wake-up
 * is lost.  A broadcast moves those whose mutex is locked to the list of that, where each unlock wakes one of them,
 * instead of waking all at once only to wait again.
 *
 * All threads that wait at a time use the same mutex.
 *
 * Lock: the guard bit.  Who was woken waits until who woke him has left it, so the object may be gone as soon
 * as nobody waits any more.
 */
#ifndef TEK_UTHREAD_COND_H
#define TEK_UTHREAD_COND_H

#include "uthread/mutex.h"
#include "uthread/until.h"
#include "uthread/wait.h"

#include <stdatomic.h>
#include <stdbool.h>

#define TEK_COND_GUARD 1u

/* It lies in the C library's pthread_cond_t: preload/uthread/cond.c. */
struct tek_cond {
	atomic_uint guard;
	struct tek_waiters waiters;
};

struct tek_cond_waiter {
	struct tek_mutex_waiter of_mutex; /* first: lists are of these */
	struct tek_mutex *mutex;          /* NULL: it is none of ours */
	bool movable;                     /* a broadcast may move it to the mutex */
	bool moved;                       /* it did; under the guard */
};

static inline void tek__cond_waiter_init(struct tek_cond_waiter *waiter, struct tek_mutex *mutex)
{
	tek__mutex_waiter_init(&waiter->of_mutex);
	waiter->mutex = mutex;
	waiter->movable = waiter->moved = false;
}

/*
 * The parts of waiting, for who has a mutex of another kind: tek__cond_begin(), unlock, tek__cond_sleep(), lock.
 * *waiter is new.
 *
 * tek__cond_sleep() returns 0, ETIMEDOUT or EINTR (interruptible: tek__interrupt()); the mutex is not locked then;
 * tek__cond_give_up(): it was not unlocked, so nobody waits.
 */
void tek__cond_begin(struct tek_cond *cond, struct tek_cond_waiter *waiter);
void tek__cond_give_up(struct tek_cond *cond, struct tek_cond_waiter *waiter);
int tek__cond_sleep(struct tek_cond *cond, struct tek_cond_waiter *waiter,
		    const struct timespec *deadline, bool interruptible);

/*
 * All but the last: unlocks the mutex and waits.  Returns 0, ETIMEDOUT, EINTR: the mutex has to be locked again,
 * by tek__mutex_lock() with waiter->of_mutex; EINVAL (`until` is no time), EPERM: nothing happened.
 * Not between tek__enter() and tek__leave().
 */
int tek__cond_wait(struct tek_cond *cond, struct tek_cond_waiter *waiter, struct tek_until until,
		   bool interruptible);

/* The quick way to lock the mutex again: see tek__mutex_lock_quickly(). */
static inline bool tek__cond_lock_quickly(struct tek_cond_waiter *waiter)
{
	return !waiter->moved && tek__mutex_lock_quickly(waiter->mutex);
}

/* By any thread, with the mutex or without; not in signal handlers. */
void tek__cond_signal(struct tek_cond *cond);
void tek__cond_broadcast(struct tek_cond *cond);

/* Whether anybody waits. */
bool tek__cond_is_used(struct tek_cond *cond);

#endif
