/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Test-and-set: a waiter writes again and again, and the lock's line goes from cache to cache. It
 * needs one atomic instruction only, which RTOS for few cores have.
 *
 * rtos-linux-scalability-2018, 3.1.5.
 */
#include "sync/lock.h"
#include "sync/poll.h"
#include "sync/waiting.h"

/*
 * The exchange acquires: what is read under the lock is read after it.  It synchronises with the
 * store that unlocks.
 */
static bool try(struct tek_lock *lock)
{
	return atomic_exchange_explicit(&lock->first, 1, memory_order_acquire) == 0;
}

static __attribute__((noinline)) int spin(struct tek_lock *lock)
{
	struct tek_spinning spinning = {0};

	do
		tek_sync__spin(&spinning);
	while (!try(lock));
	return 0;
}

/* A function of its own, so that an uncontended lock saves no registers. */
static int lock(struct tek_lock *lock)
{
	return try(lock) ? 0 : spin(lock);
}

static int lock_until(struct tek_lock *lock, struct tek_until until)
{
	return tek_sync__poll_until(lock, try, until);
}

static int unlock(struct tek_lock *lock)
{
	atomic_store_explicit(&lock->first, 0, memory_order_release);
	return 0;
}

const struct tek_lock_kind tek_sync__lock_tas = {
	.name = "tas",
	.lock = lock,
	.try = try,
	.lock_until = lock_until,
	.unlock = unlock,
	.is_locked = tek_sync__lock_has_first,
};
