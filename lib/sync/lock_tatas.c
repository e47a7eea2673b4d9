/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Test, and test-and-set: a waiter only reads, so the lock's line stays in its cache until it is
 * released.
 *
 * T. E. Anderson, The Performance of Spin Lock Alternatives (1990); rtos-linux-scalability-2018,
 * 3.1.5.
 */
#include "sync/lock.h"
#include "sync/poll.h"
#include "sync/waiting.h"

/*
 * The exchange acquires: what is read under the lock is read after it.  It synchronises with the
 * store that unlocks.
 */
static bool take(struct tek_lock *lock)
{
	return atomic_exchange_explicit(&lock->first, 1, memory_order_acquire) == 0;
}

/* Each reader goes on to take(), which orders the later accesses. */
static bool is_free(struct tek_lock *lock)
{
	return atomic_load_explicit(&lock->first, memory_order_relaxed) == 0;
}

static bool try(struct tek_lock *lock)
{
	return is_free(lock) && take(lock);
}

static __attribute__((noinline)) int spin(struct tek_lock *lock)
{
	struct tek_spinning spinning = {0};

	do
		tek_sync__spin(&spinning);
	while (!try(lock));
	return 0;
}

/* Not try() at first: a line that comes for reading has to come again for writing. */
static int lock(struct tek_lock *lock)
{
	return take(lock) ? 0 : spin(lock);
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

const struct tek_lock_kind tek_sync__lock_tatas = {
	.name = "tatas",
	.lock = lock,
	.try = try,
	.lock_until = lock_until,
	.unlock = unlock,
	.is_locked = tek_sync__lock_has_first,
};
