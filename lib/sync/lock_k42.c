/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * K42: a queue lock like MCS that needs no node from its user. A waiter has one on its stack, and
 * moves its content into the lock when it gets the lock.
 *
 * M. L. Scott: Shared-Memory Synchronization (2013), 4.3.2; rtos-linux-scalability-2018, 3.1.5.
 *
 * The lock itself is the holder's node:
 *	first	the last of the queue: NULL, it is free; the lock's own address, no waiter
 *	second	the first waiter, once it has linked itself
 * All nodes begin with the fields of a waiter, so a new waiter writes to the one before it without
 * knowing its kind.
 */
#include "sync/lock.h"
#include "sync/poll.h"
#include "sync/waiting.h"

struct waiter {
	_Atomic uintptr_t waits, next;
};

_Static_assert(offsetof(struct waiter, next) == offsetof(struct tek_lock, second),
	       "a lock is a node, too");

/* Acquires: synchronises with the exchange that releases. */
static bool try(struct tek_lock *lock)
{
	uintptr_t last = 0;

	return atomic_load_explicit(&lock->first, memory_order_relaxed) == 0 &&
	       atomic_compare_exchange_strong_explicit(&lock->first, &last, (uintptr_t)lock,
						       memory_order_acquire, memory_order_relaxed);
}

/* Waits for a waiter that is about to link itself. */
static uintptr_t next_of(_Atomic uintptr_t *next)
{
	struct tek_spinning spinning = {0};
	uintptr_t seen;

	while ((seen = atomic_load_explicit(next, memory_order_acquire)) == 0)
		tek_sync__spin(&spinning);
	return seen;
}

/*
 * This thread has the lock now, and its node goes away: the link to the next waiter moves into the
 * lock. A new waiter finds this node as the last one, or the lock; the exchange releases the
 * cleared `second`. A waiter that has found this node writes to it, and is waited for.
 */
static void leave_queue(struct tek_lock *lock, struct waiter *waiter)
{
	uintptr_t last = (uintptr_t)waiter;
	uintptr_t next = atomic_load_explicit(&waiter->next, memory_order_acquire);

	if (!next) {
		atomic_store_explicit(&lock->second, 0, memory_order_relaxed);
		if (atomic_compare_exchange_strong_explicit(&lock->first, &last, (uintptr_t)lock,
							    memory_order_release,
							    memory_order_relaxed))
			return;
		next = next_of(&waiter->next);
	}
	atomic_store_explicit(&lock->second, next, memory_order_relaxed);
}

/*
 * The exchange released the node's content to the next waiter, and acquired that of the node
 * before. Reading `waits` as 0, which the holder has released, acquires the lock.
 */
static void wait_in_queue(struct tek_lock *lock, struct waiter *waiter, uintptr_t before)
{
	struct tek_spinning spinning = {0};

	atomic_store_explicit(&((struct waiter *)before)->next, (uintptr_t)waiter,
			      memory_order_release);
	while (atomic_load_explicit(&waiter->waits, memory_order_acquire))
		tek_sync__spin(&spinning);
	leave_queue(lock, waiter);
}

/*
 * A function of its own, so that an uncontended lock saves no registers. `last` is the observed
 * end.
 */
static __attribute__((noinline)) int wait(struct tek_lock *lock, uintptr_t last)
{
	struct waiter waiter = {.waits = 1};

	for (;;) {
		if (last == 0) {
			if (try(lock))
				return 0;
			last = atomic_load_explicit(&lock->first, memory_order_relaxed);
		} else if (atomic_compare_exchange_weak_explicit(
				   &lock->first, &last, (uintptr_t)&waiter, memory_order_acq_rel,
				   memory_order_relaxed)) {
			wait_in_queue(lock, &waiter, last);
			return 0;
		}
	}
}

static int lock(struct tek_lock *lock)
{
	uintptr_t last = 0;

	return atomic_compare_exchange_strong_explicit(&lock->first, &last, (uintptr_t)lock,
						       memory_order_acquire, memory_order_relaxed)
		       ? 0
		       : wait(lock, last);
}

/* A waiter cannot leave the queue, as its node would go: so a wait with a deadline polls. */
static int lock_until(struct tek_lock *lock, struct tek_until until)
{
	return tek_sync__poll_until(lock, try, until);
}

static int unlock(struct tek_lock *lock)
{
	uintptr_t last = (uintptr_t)lock;
	uintptr_t next = atomic_load_explicit(&lock->second, memory_order_acquire);

	if (!next) {
		if (atomic_compare_exchange_strong_explicit(
			    &lock->first, &last, 0, memory_order_release, memory_order_relaxed) ||
		    last == 0) /* it was free */
			return 0;
		next = next_of(&lock->second);
	}
	/* From here on neither the lock nor the node is accessed. */
	atomic_store_explicit(&((struct waiter *)next)->waits, 0, memory_order_release);
	return 0;
}

const struct tek_lock_kind tek_sync__lock_k42 = {
	.name = "k42",
	.fifo = true,
	.lock = lock,
	.try = try,
	.lock_until = lock_until,
	.unlock = unlock,
	.is_locked = tek_sync__lock_has_first,
};
