/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Condition variables over any kind of lock. A waiter enters the list, releases the lock, sleeps,
 * and acquires the lock again. Waiters are kernel threads or user-level threads. Nothing here
 * allocates.
 *
 *	struct tek_sync_cond_waiter waiter;
 *	tek_sync__cond_enter(&cond, &waiter);
 *	kind->unlock(&lock);
 *	error = tek_sync__cond_sleep(&cond, &waiter, until);
 *	kind->lock(&lock);
 *
 * All zero is a condition variable without waiters. It lies in a pthread_cond_t
 * (preload/sync/cond.c) and belongs to one process.
 *
 * Each waiter sleeps in a sleeper of its own. Only a signal that came after it had entered wakes
 * it, so there are no spurious wake-ups. Real-time threads are woken first, by their priority at
 * the beginning of the wait, and in FIFO order among equals (pthread_cond_signal(3p)). No signal is
 * lost: a waiter enters the list under the lock, before another thread can change the condition.
 *
 * Life cycle: it may be destroyed after a broadcast, and freed at once. The waker does not access
 * it once the waiter is awake. Of the woken waiters only one that was signalled while another one
 * waited accesses it once more: if cancelled, it hands the signal on. tek_sync__cond_destroy()
 * waits for those waiters, and for those that are giving up. As in the C library, it waits for ever
 * for a waiter that never leaves its wait (longjmp(3) in a handler).
 */
#ifndef TEK_SYNC_COND_H
#define TEK_SYNC_COND_H

#include "base/until.h"
#include "sync/waiting.h"

struct tek_sync_cond_waiter {
	struct tek_sleeper sleeper;
	atomic_uint place; /* its state: cond.c */
	int urgency;       /* the more urgent waiter is woken first: tek_sync__urgency() */
	struct tek_sync_cond_waiter *next, *previous;
};

struct tek_sync_cond {
	atomic_uint held;     /* the lock of the list: guard.h */
	unsigned int process; /* the process that wrote the list last: forked.h */
	_Atomic(struct tek_sync_cond_waiter *) first;
	struct tek_sync_cond_waiter *last;
	unsigned int owing; /* waiters that may still have to hand a signal on */
};

/* Puts the calling thread, which holds the lock of the condition, into the list. */
void tek_sync__cond_enter(struct tek_sync_cond *cond, struct tek_sync_cond_waiter *waiter);

/*
 * Waits until it is woken: 0, ETIMEDOUT, EINVAL (`until` is not a valid time). Signals are handled
 * meanwhile. A cancellation point: its clean-up handler has to call tek_sync__cond_leave().
 */
int tek_sync__cond_sleep(struct tek_sync_cond *cond, struct tek_sync_cond_waiter *waiter,
			 struct tek_until until);

/*
 * For a waiter that has entered and does not wait. A signal that it has received goes to another
 * waiter.
 */
void tek_sync__cond_leave(struct tek_sync_cond *cond, struct tek_sync_cond_waiter *waiter);

/* Wakes one waiter. */
void tek_sync__cond_signal(struct tek_sync_cond *cond);
/* Wakes all waiters. */
void tek_sync__cond_broadcast(struct tek_sync_cond *cond);

/* 0; EBUSY: a thread waits. May block: see above. */
int tek_sync__cond_destroy(struct tek_sync_cond *cond);

#endif
