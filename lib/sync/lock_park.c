/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Spin, then sleep: the designated waiter for the lock, the other waiters for that role. Any thread
 * takes the lock when it is free. Its word records whether a thread sleeps, so no system call is
 * made without sleepers.
 *
 * U. Drepper, Futexes Are Tricky (2011), mutex 2, twice; with spinning before.
 *
 * A thread that unlocks and locks again at once would always precede the waiters that it has woken.
 * So now and then the lock is reserved for them.
 *
 *	first	its state, below
 *	second	designated.h
 */
#include "sync/designated.h"
#include "sync/lock.h"
#include "sync/poll.h"

enum {
	FREE,
	LOCKED,
	PARKED,   /* locked, and a thread may sleep */
	STARVED,  /* the same, and a sleeper is starved */
	RESERVED, /* free, reserved for waiters that have slept */
};

static atomic_uint *word_of(struct tek_lock *lock)
{
	return (atomic_uint *)&lock->first;
}

static atomic_uint *designation_of(struct tek_lock *lock)
{
	return (atomic_uint *)&lock->second;
}

static bool exchange(struct tek_lock *lock, unsigned int seen, unsigned int wanted)
{
	return atomic_compare_exchange_strong_explicit(word_of(lock), &seen, wanted,
						       memory_order_acquire, memory_order_relaxed);
}

static bool take(struct tek_lock *lock)
{
	return exchange(lock, FREE, LOCKED);
}

static bool try(struct tek_lock *lock)
{
	return take(lock) || exchange(lock, RESERVED, PARKED);
}

/* Reads first, because other threads write this word. */
static bool try_if_free(struct tek_lock *lock)
{
	return atomic_load_explicit(word_of(lock), memory_order_relaxed) == FREE && take(lock);
}

/* For a waiter that has slept: it sets PARKED, as it cannot know that no other thread sleeps. */
static bool try_after_sleep(struct tek_lock *lock)
{
	const unsigned int seen = atomic_load_explicit(word_of(lock), memory_order_relaxed);

	return (seen == FREE || seen == RESERVED) && exchange(lock, seen, PARKED);
}

static int take_designated(struct tek_lock *lock, struct tek_until until)
{
	bool is_late = false;
	int error = 0;

	if (until.at ? try_if_free(lock) : tek_sync__poll_patiently(lock, try_if_free))
		return 0;
	if (atomic_load_explicit(word_of(lock), memory_order_relaxed) == RESERVED)
		tek_sync__let_come_first();
	do {
		const unsigned int sleeps = is_late && tek_sync__is_starved() ? STARVED : PARKED;
		const unsigned int seen = atomic_exchange_explicit(word_of(lock), sleeps,
								   memory_order_acquire);
		if (seen == FREE || seen == RESERVED) {
			atomic_store_explicit(word_of(lock), PARKED, memory_order_relaxed);
			return 0;
		}
		error = tek_sync__park(word_of(lock), sleeps, until);
		is_late = true;
	} while (!error && !try_after_sleep(lock) &&
		 (until.at || !tek_sync__poll_patiently(lock, try_after_sleep)));
	return error;
}

static __attribute__((noinline)) int wait(struct tek_lock *lock, struct tek_until until)
{
	return tek_sync__poll(lock, try_if_free, until)
		       ? 0
		       : tek_sync__wait_for_designation(lock, designation_of(lock), until,
							take_designated);
}

static int lock_until(struct tek_lock *lock, struct tek_until until)
{
	return take(lock) ? 0 : wait(lock, until);
}

static int lock(struct tek_lock *lock)
{
	return take(lock) ? 0 : wait(lock, TEK_FOR_EVER);
}

static __attribute__((noinline)) int unlock_and_wake(struct tek_lock *lock, unsigned int seen)
{
	atomic_uint *word = word_of(lock);

	atomic_exchange_explicit(word, seen == STARVED ? RESERVED : FREE, memory_order_release);
	tek_sync__unpark(word, 1);
	return 0;
}

/* An exchange: a waiter's concurrent store is either seen here or comes after it. */
static int unlock(struct tek_lock *lock)
{
	unsigned int seen = LOCKED;

	return atomic_compare_exchange_strong_explicit(word_of(lock), &seen, FREE,
						       memory_order_release, memory_order_relaxed)
		       ? 0
		       : unlock_and_wake(lock, seen);
}

static bool is_locked(const struct tek_lock *lock)
{
	const uintptr_t word = atomic_load_explicit(&lock->first, memory_order_relaxed);
	return word != FREE && word != RESERVED;
}

const struct tek_lock_kind tek_sync__lock_park = {
	.name = "park",
	.sleeps = true,
	.lock = lock,
	.try = try,
	.lock_until = lock_until,
	.unlock = unlock,
	.is_locked = is_locked,
};
