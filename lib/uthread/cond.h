/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Condition variables. An all-zero one is ready for use.
 *
 * A waiter enters the list before it unlocks the mutex. The next owner of the mutex finds it there,
 * so no wake-up is lost. While the mutex is locked a broadcast moves its waiters to the list of the
 * mutex. There each unlock wakes one, instead of all waking at once only to wait again.
 *
 * All threads that wait at a time use the same mutex.
 *
 * Lock: the guard bit. The waking thread releases it before it wakes a waiter. A woken or moved
 * waiter does not access the object again. So the object may be destroyed and freed as soon as no
 * thread waits: right after a broadcast, too. Only a waiter that gives up has to return to it, and
 * tek_ut__cond_destroy() waits for that.
 *
 * One in memory of several processes belongs to the process that waited last: to every other
 * process its list is empty.
 */
#ifndef TEK_UTHREAD_COND_H
#define TEK_UTHREAD_COND_H

#include "base/until.h"
#include "uthread/mutex.h"
#include "uthread/wait.h"

#include <stdatomic.h>
#include <stdbool.h>

#define TEK_COND_GUARD 1u

/* It lies in the C library's pthread_cond_t: preload/uthread/cond.c. */
struct tek_cond {
	atomic_uint guard;
	unsigned int process; /* of the waiters (wait.h); entries of another one do not count */
	struct tek_waiters waiters;
};

/* tek_cond_waiter.place */
enum {
	TEK_COND_LISTED,  /* in the list of the condition variable, or woken from there */
	TEK_COND_LEAVING, /* it takes itself out: no other thread does */
	TEK_COND_MOVING,  /* a broadcast has reached it and is still accessing it */
	TEK_COND_MOVED,   /* the broadcast has put it into the list of the mutex */
	TEK_COND_REACHED, /* the broadcast has found the mutex free */
};

struct tek_cond_waiter {
	struct tek_mutex_waiter of_mutex; /* first: lists are of these */
	struct tek_mutex *mutex;          /* NULL: not a mutex of this library */
	atomic_bool movable;              /* a broadcast may move it to the mutex */
	atomic_uint place;                /* TEK_COND_* */
};

static inline void tek_ut__cond_waiter_init(struct tek_cond_waiter *waiter, struct tek_mutex *mutex)
{
	tek_ut__mutex_waiter_init(&waiter->of_mutex);
	waiter->mutex = mutex;
	atomic_init(&waiter->movable, false);
	atomic_init(&waiter->place, TEK_COND_LISTED);
}

/*
 * The parts of waiting, for a caller with a mutex of another kind: tek_ut__cond_begin(), unlock,
 * tek_ut__cond_sleep(), lock. *waiter is new.
 *
 * tek_ut__cond_sleep() returns 0, ETIMEDOUT or EINTR (interruptible: tek_ut__interrupt()); the
 * mutex is unlocked then. tek_ut__cond_give_up(): the unlock failed, so the caller does not wait.
 */
void tek_ut__cond_begin(struct tek_cond *cond, struct tek_cond_waiter *waiter);
void tek_ut__cond_give_up(struct tek_cond *cond, struct tek_cond_waiter *waiter);
int tek_ut__cond_sleep(struct tek_cond *cond, struct tek_cond_waiter *waiter,
		       const struct timespec *deadline, bool interruptible);

/*
 * All but the last: unlocks the mutex and waits.  Returns 0, ETIMEDOUT, EINTR: the mutex has to be
 * locked again, by tek_ut__mutex_lock() with waiter->of_mutex; EINVAL (`until` is no time), EPERM:
 * nothing happened. Not between tek_ut__enter() and tek_ut__leave().
 */
int tek_ut__cond_wait(struct tek_cond *cond, struct tek_cond_waiter *waiter, struct tek_until until,
		      bool interruptible);

/* The fast path to lock the mutex again: see tek_ut__mutex_lock_quickly(). */
static inline bool tek_ut__cond_lock_quickly(struct tek_cond_waiter *waiter)
{
	return atomic_load_explicit(&waiter->place, memory_order_relaxed) != TEK_COND_MOVED &&
	       tek_ut__mutex_lock_quickly(waiter->mutex);
}

/* By any thread, with the mutex or without; not in signal handlers. */
void tek_ut__cond_signal(struct tek_cond *cond);
void tek_ut__cond_broadcast(struct tek_cond *cond);

/*
 * 0: no thread accesses it any more; or EBUSY: a thread waits, and nothing happened. Not between
 * tek_ut__enter() and tek_ut__leave().
 */
int tek_ut__cond_destroy(struct tek_cond *cond);

#endif
