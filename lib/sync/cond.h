/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Condition variables, over whatever lock: who waits enters the list, releases the lock, sleeps, and acquires the lock
 * again.
 *
 *	struct tek_cond_waiter waiter;
 *	tek__cond_enter(&cond, &waiter);
 *	kind->unlock(&lock);
 *	error = tek__cond_sleep(&cond, &waiter, until);
 *	kind->lock(&lock);
 *
 * All zero is one that nobody waits for.  It lies in a pthread_cond_t (preload/sync/cond.c) and is of one process.
 *
 * Each sleeps in a sleeper of its own, so nobody is woken but by a signal that came after it had entered, and nobody in vain.
 * Real-time threads are woken first, by their priority when they began to wait, and among equals who came first
 * (pthread_cond_signal(3p)).  Nothing is lost: who enters under the lock is in the list before anybody changes, under the
 * same lock, what it waits for.
 *
 * Life: it may be destroyed after a broadcast, and at once freed.  Who wakes somebody does not touch it any more when he is
 * awake.  Of those who were woken only who was signalled while others waited does so once, for he may be cancelled, and hand
 * the signal on.  tek__cond_destroy() waits for those, and for those who are just giving up: for ever, as the C library's,
 * for one that never comes out of its wait (longjmp(3) in a handler).
 *
 * What waits is a kernel thread or a user-level thread.  Nothing here allocates.
 */
#ifndef TEK_SYNC_COND_H
#define TEK_SYNC_COND_H

#include "sync/until.h"
#include "sync/waiting.h"

struct tek_cond_waiter {
	struct tek_sleeper sleeper;
	atomic_uint place; /* cond.c */
	int urgency;       /* of two the more urgent one is woken first: tek__urgency() */
	struct tek_cond_waiter *next, *previous;
};

struct tek_cond {
	atomic_uint held;     /* the lock of the list: guard.h */
	unsigned int process; /* which has written the list last: forked.h */
	_Atomic(struct tek_cond_waiter *) first;
	struct tek_cond_waiter *last;
	unsigned int owing; /* that many may have to hand a signal on still */
};

/* The calling thread waits, which has what protects the condition locked. */
void tek__cond_enter(struct tek_cond *cond, struct tek_cond_waiter *waiter);

/*
 * Until it is woken: 0, ETIMEDOUT, EINVAL (`until` is no time).  Signals are handled meanwhile.  A cancellation point,
 * where tek__cond_leave() is to be called by a clean-up handler.
 */
int tek__cond_sleep(struct tek_cond *cond, struct tek_cond_waiter *waiter, struct tek_until until);

/* It has entered, but does not wait: a signal that has found it already goes to another one. */
void tek__cond_leave(struct tek_cond *cond, struct tek_cond_waiter *waiter);

/* One of those who wait. */
void tek__cond_signal(struct tek_cond *cond);
/* All of them. */
void tek__cond_broadcast(struct tek_cond *cond);

/* 0, EBUSY: somebody waits.  May wait itself: above. */
int tek__cond_destroy(struct tek_cond *cond);

#endif
