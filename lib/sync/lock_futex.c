/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The futex mutex: a thread that does not get it at once sleeps.
 *
 * U. Drepper, Futexes Are Tricky (2011), mutex 2; sync/word.h.
 */
#include "sync/lock.h"
#include "sync/parking.h"
#include "sync/word.h"

static atomic_uint *word_of(struct tek_lock *lock)
{
	return (atomic_uint *)&lock->first;
}

static bool try(struct tek_lock *lock)
{
	return tek_sync__word_try(word_of(lock));
}

static int lock_until(struct tek_lock *lock, struct tek_until until)
{
	return try(lock) ? 0 : tek_sync__word_sleep(word_of(lock), until);
}

static int lock(struct tek_lock *lock)
{
	return lock_until(lock, TEK_FOR_EVER);
}

static int unlock(struct tek_lock *lock)
{
	tek_sync__word_unlock(word_of(lock));
	return 0;
}

const struct tek_lock_kind tek_sync__lock_futex = {
	.name = "futex",
	.sleeps = true,
	.lock = lock,
	.try = try,
	.lock_until = lock_until,
	.unlock = unlock,
	.is_locked = tek_sync__lock_has_first,
};
