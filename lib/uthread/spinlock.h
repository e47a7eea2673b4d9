/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Spin locks of the program, as pthread_spin_lock(3) has them: a word with the values of the C
 * library's. So a lock of several processes may be shared with processes without this engine.
 *
 * The holder may be a user-level thread that was preempted. So a waiter soon lets other threads
 * run, and at last sleeps for a moment: a holder of lesser priority has to run, too.
 */
#ifndef TEK_UTHREAD_SPINLOCK_H
#define TEK_UTHREAD_SPINLOCK_H

#include "uthread/guard.h"

#include <stdatomic.h>
#include <stdbool.h>

#if defined(__x86_64__) || defined(__i386__)
/* glibc counts down from 1, and waiters may make it negative. */
enum { TEK_SPINLOCK_FREE = 1, TEK_SPINLOCK_HELD = 0 };
#else
enum { TEK_SPINLOCK_FREE = 0, TEK_SPINLOCK_HELD = 1 };
#endif

typedef atomic_uint tek_spinlock;

/*
 * A whole exchange, with the lock prefix if the architecture has one: the word may be shared by
 * processes, of which tek_ut__parallel() knows nothing.
 */
static inline bool tek_ut__spinlock_try(tek_spinlock *lock)
{
	unsigned int from = TEK_SPINLOCK_FREE;
	return atomic_compare_exchange_strong_explicit(lock, &from, TEK_SPINLOCK_HELD,
						       memory_order_acquire, memory_order_relaxed);
}

/* Until it is free. Not between tek_ut__enter() and tek_ut__leave(). */
void tek_ut__spinlock_wait(tek_spinlock *lock);

static inline void tek_ut__spinlock_lock(tek_spinlock *lock)
{
	while (!tek_ut__spinlock_try(lock))
		tek_ut__spinlock_wait(lock);
}

static inline void tek_ut__spinlock_unlock(tek_spinlock *lock)
{
	atomic_store_explicit(lock, TEK_SPINLOCK_FREE, memory_order_release);
}

#endif
