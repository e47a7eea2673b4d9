/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An adaptive lock. It is a spin lock until a waiter has waited for long; then its waiters sleep,
 * until none has slept for a while. The two modes differ in unlocking: by a plain store, or by an
 * exchange that shows whether a waiter is to be woken. The holder settles the mode when it locks.
 *
 * After B.-H. Lim, A. Agarwal: Reactive Synchronization Algorithms for Multiprocessors (1994): only
 * the holder may change the mode.
 *
 *	first	a number, and LOCKED, PARKED, or RESERVED
 *	second	the number of a free lock; WAITERS_SLEEP: the next holder is to let waiters sleep;
 *		STARVED: a sleeper is starved, so the lock is to be reserved for sleepers.  Behind
 *		it, designated.h
 *
 * It is free when both words have the same number and `first` no flags. A holder that lets waiters
 * spin raises the number in `first`, and its unlock the one in `second`. So the locking instruction
 * finds a word that was not written just before, a quarter of the cost on some processors. A holder
 * that lets waiters sleep sets LOCKED and keeps the number.
 *
 * No number recurs in `first` once `second` is past it (within 2^30 times). So if `first` equals a
 * number that was read from `second` before, the lock is free.
 */
#include "sync/designated.h"
#include "sync/lock.h"
#include "sync/poll.h"

#define LOCKED 1u   /* locked, and waiters may sleep */
#define PARKED 2u   /* and a waiter may sleep already */
#define RESERVED 2u /* alone: free, reserved for waiters that have slept */
#define FLAGS (LOCKED | PARKED)
#define WAITERS_SLEEP 1u
#define STARVED 2u
#define NEXT 4u /* number */

/*
 * While a waiter may not sleep, it naps between polls, each time as long as it has waited so far.
 */
#define NAP_NS 50000
#define NAP_NS_MAX 200000

/* With 32-bit pointers there is no room for the designation: each waiter is a designated waiter. */
#define HAS_DESIGNATION (sizeof(uintptr_t) > sizeof(atomic_uint))

static atomic_ulong to_park, to_spin;
/* The first locks that changed their mode. */
static struct {
	_Atomic(struct tek_lock *) lock;
	atomic_bool waiters_sleep;
	atomic_ulong to_park, to_spin;
} changed[TEK_LOCK_AUTO_CHANGED];

unsigned int tek_sync__lock_auto_respin_after = 4000;
static __thread unsigned int unlocks_alone __attribute__((tls_model("initial-exec")));

static atomic_uint *word_of(struct tek_lock *lock)
{
	return (atomic_uint *)&lock->first;
}

static atomic_uint *number_of(struct tek_lock *lock)
{
	return (atomic_uint *)&lock->second;
}

static atomic_uint *designation_of(struct tek_lock *lock)
{
	return number_of(lock) + 1;
}

/* Acquires what was done under a lock that was unlocked by a store. */
static unsigned int read_number(struct tek_lock *lock)
{
	return atomic_load_explicit(number_of(lock), memory_order_acquire);
}

static unsigned int free_one(unsigned int number)
{
	return number & ~FLAGS;
}

/* By the values of both words. */
static bool has_holder(unsigned int seen, unsigned int number)
{
	return (seen & LOCKED) || (int)(free_one(seen) - free_one(number)) > 0;
}

/*
 * Acquires: synchronises with the exchange that unlocks. read_number(), called before, synchronises
 * with the store that unlocks.
 */
static bool exchange(struct tek_lock *lock, unsigned int seen, unsigned int wanted)
{
	return atomic_compare_exchange_strong_explicit(word_of(lock), &seen, wanted,
						       memory_order_acquire, memory_order_relaxed);
}

/* Counts changes of the mode only: a request for a change may come twice. */
static void note(struct tek_lock *lock, bool waiters_sleep)
{
	for (unsigned int i = 0; i < TEK_LOCK_AUTO_CHANGED; i++) {
		struct tek_lock *seen = NULL;
		if (!atomic_compare_exchange_strong_explicit(&changed[i].lock, &seen, lock,
							     memory_order_relaxed,
							     memory_order_relaxed) &&
		    seen != lock)
			continue;
		if (atomic_exchange_explicit(&changed[i].waiters_sleep, waiters_sleep,
					     memory_order_relaxed) == waiters_sleep)
			return;
		atomic_fetch_add_explicit(waiters_sleep ? &changed[i].to_park : &changed[i].to_spin,
					  1, memory_order_relaxed);
		break;
	}
	atomic_fetch_add_explicit(waiters_sleep ? &to_park : &to_spin, 1, memory_order_relaxed);
}

/* Locks it so that waiters may sleep. `seen` is the word of a free lock with that number. */
static bool take_as(struct tek_lock *lock, unsigned int seen, unsigned int number,
		    unsigned int flags)
{
	if (!exchange(lock, seen, free_one(number) | flags))
		return false;
	/*
	 * While it is LOCKED, WAITERS_SLEEP is set here too: unlock() reads this word only. It may
	 * be clear since `number` was read.
	 */
	if (!(atomic_load_explicit(number_of(lock), memory_order_relaxed) & WAITERS_SLEEP)) {
		atomic_store_explicit(number_of(lock), free_one(number) | WAITERS_SLEEP,
				      memory_order_relaxed);
		note(lock, true);
	}
	return true;
}

static bool take(struct tek_lock *lock)
{
	const unsigned int number = read_number(lock);

	if (number & WAITERS_SLEEP)
		return take_as(lock, free_one(number), number, LOCKED);
	return exchange(lock, free_one(number), free_one(number) + NEXT);
}

/*
 * No holder advances `second` past `first`. A late second unlock may have done so: then the lock is
 * free, and its words are repaired here.
 */
static bool is_free(struct tek_lock *lock)
{
	const unsigned int seen = atomic_load_explicit(word_of(lock), memory_order_relaxed);
	const unsigned int number = free_one(read_number(lock));

	if (!(seen & LOCKED) && (int)(number - free_one(seen)) > 0)
		return exchange(lock, seen, number);
	return seen == number;
}

static bool try(struct tek_lock *lock)
{
	const unsigned int number = read_number(lock);
	return take(lock) || (is_free(lock) && take(lock)) ||
	       take_as(lock, free_one(number) | RESERVED, number, FLAGS);
}

/* Reads first, because other threads write this word. */
static bool try_if_free(struct tek_lock *lock)
{
	return is_free(lock) && take(lock);
}

/* For a waiter that has slept: it sets PARKED, as it cannot know that no other thread sleeps. */
static bool try_after_sleep(struct tek_lock *lock)
{
	(void)is_free(lock); /* repairs it */
	const unsigned int number = read_number(lock);
	const unsigned int seen = atomic_load_explicit(word_of(lock), memory_order_relaxed);

	return (seen == free_one(number) || seen == (free_one(number) | RESERVED)) &&
	       take_as(lock, seen, number, FLAGS);
}

/*
 * The next holder will let waiters sleep. A concurrent unlock may undo that; then it is set again.
 */
static void ask_to_park(struct tek_lock *lock)
{
	if (!(atomic_load_explicit(number_of(lock), memory_order_relaxed) & WAITERS_SLEEP) &&
	    !(atomic_fetch_or_explicit(number_of(lock), WAITERS_SLEEP, memory_order_relaxed) &
	      WAITERS_SLEEP))
		note(lock, true);
}

/*
 * Sleeps between polls while the lock is in spin mode: 0, ETIMEDOUT or EINVAL. A real-time thread
 * keeps the first interval.
 */
static int nap(long *ns, struct tek_until until)
{
	struct tek_spinning spinning = {0};
	int error = tek_sync__spin_until(&spinning, until);

	if (error)
		return error;
	tek_sync__nap(*ns);
	if (*ns < NAP_NS_MAX && !tek_sync__is_real_time())
		*ns *= 2;
	return 0;
}

/* Sleeps until the lock may be free: 0, ETIMEDOUT, EINVAL. */
static int sleep(struct tek_lock *lock, unsigned int seen, bool is_starved, struct tek_until until)
{
	if (is_starved)
		atomic_fetch_or_explicit(number_of(lock), STARVED, memory_order_relaxed);
	return tek_sync__park(word_of(lock), seen, until);
}

/* A waiter that has slept and leaves without the lock wakes another one in its place. */
static int take_designated(struct tek_lock *lock, struct tek_until until)
{
	bool has_slept = false;
	long ns = NAP_NS;
	int error = 0;

	do {
		bool (*const again)(struct tek_lock *) = has_slept ? try_after_sleep : try_if_free;
		if (again(lock) || (!until.at && tek_sync__poll_patiently(lock, again)))
			return 0;
		const unsigned int number = read_number(lock);
		const unsigned int seen = atomic_load_explicit(word_of(lock), memory_order_relaxed);
		const unsigned int parked = seen | PARKED;
		if (seen == free_one(number))
			continue;
		if (seen == (free_one(number) | RESERVED)) {
			tek_sync__let_come_first();
			if (take_as(lock, seen, number, FLAGS))
				return 0;
		} else if (!(seen & LOCKED)) {
			ask_to_park(lock);
			error = nap(&ns, until);
		} else if (seen == parked || exchange(lock, seen, parked)) {
			error = sleep(lock, parked, has_slept && tek_sync__is_starved(), until);
			has_slept = true;
		}
	} while (!error);
	if (has_slept)
		tek_sync__unpark(word_of(lock), 1);
	return error;
}

static __attribute__((noinline)) int wait(struct tek_lock *lock, struct tek_until until)
{
	if (tek_sync__poll(lock, try_if_free, until))
		return 0;
	return HAS_DESIGNATION ? tek_sync__wait_for_designation(lock, designation_of(lock), until,
								take_designated)
			       : take_designated(lock, until);
}

static int lock_until(struct tek_lock *lock, struct tek_until until)
{
	return take(lock) ? 0 : wait(lock, until);
}

static __attribute__((noinline)) int lock_slowly(struct tek_lock *lock)
{
	return lock_until(lock, TEK_FOR_EVER);
}

/* As take(), in few instructions where no waiter sleeps or has slept. */
static int lock(struct tek_lock *lock)
{
	const unsigned int number = read_number(lock);

	if (__builtin_expect(number & (WAITERS_SLEEP | STARVED), 0))
		return lock_slowly(lock);
	return exchange(lock, number, number + NEXT) ? 0 : lock_slowly(lock);
}

/*
 * True if no waiter has slept for so long that it may spin again. Called by a holder that let
 * waiters sleep.
 */
static bool has_calmed(unsigned int seen)
{
	if (!(seen & PARKED) && ++unlocks_alone < tek_sync__lock_auto_respin_after)
		return false;
	unlocks_alone = 0;
	return !(seen & PARKED);
}

/* By a holder that let waiters spin. STARVED is dropped where no waiter is to sleep. */
static int let_go(struct tek_lock *lock, unsigned int number)
{
	const unsigned int asked = number & WAITERS_SLEEP ? number & (WAITERS_SLEEP | STARVED) : 0;

	atomic_store_explicit(number_of(lock), (free_one(number) + NEXT) | asked,
			      memory_order_release);
	return 0;
}

/* By a holder that let waiters sleep. Meanwhile the word may change from LOCKED to PARKED only. */
static int let_go_and_wake(struct tek_lock *lock, unsigned int number, unsigned int seen)
{
	unsigned int left = free_one(number);

	if (number & STARVED) {
		atomic_store_explicit(number_of(lock), left | WAITERS_SLEEP, memory_order_relaxed);
		left |= RESERVED;
	} else if (has_calmed(seen)) {
		atomic_store_explicit(number_of(lock), left, memory_order_relaxed);
		note(lock, false);
	}
	if (atomic_exchange_explicit(word_of(lock), left, memory_order_release) & PARKED)
		tek_sync__unpark(word_of(lock), 1);
	return 0;
}

static __attribute__((noinline)) int unlock_slowly(struct tek_lock *lock, unsigned int number)
{
	const unsigned int seen = atomic_load_explicit(word_of(lock), memory_order_relaxed);

	if (!has_holder(seen, number))
		return 0;
	return seen & LOCKED ? let_go_and_wake(lock, number, seen) : let_go(lock, number);
}

/* Checks that it is locked in spin mode, for the sake of a double unlock. */
static int unlock(struct tek_lock *lock)
{
	const unsigned int number = atomic_load_explicit(number_of(lock), memory_order_relaxed);
	const unsigned int seen = atomic_load_explicit(word_of(lock), memory_order_relaxed);

	if (__builtin_expect(number & (WAITERS_SLEEP | STARVED), 0) ||
	    __builtin_expect(seen != number + NEXT, 0))
		return unlock_slowly(lock, number);
	atomic_store_explicit(number_of(lock), number + NEXT, memory_order_release);
	return 0;
}

static bool is_locked(const struct tek_lock *lock)
{
	const unsigned int seen = atomic_load_explicit((const atomic_uint *)&lock->first,
						       memory_order_relaxed);
	const unsigned int number = atomic_load_explicit((const atomic_uint *)&lock->second,
							 memory_order_relaxed);

	return has_holder(seen, number);
}

void tek_sync__lock_auto_counts(struct tek_lock_auto_counts *counts)
{
	*counts = (struct tek_lock_auto_counts){
		.to_park = atomic_load_explicit(&to_park, memory_order_relaxed),
		.to_spin = atomic_load_explicit(&to_spin, memory_order_relaxed),
	};
}

bool tek_sync__lock_auto_changed(unsigned int number, const struct tek_lock **lock,
				 struct tek_lock_auto_counts *counts)
{
	if (number >= TEK_LOCK_AUTO_CHANGED)
		return false;
	*lock = atomic_load_explicit(&changed[number].lock, memory_order_relaxed);
	*counts = (struct tek_lock_auto_counts){
		.to_park = atomic_load_explicit(&changed[number].to_park, memory_order_relaxed),
		.to_spin = atomic_load_explicit(&changed[number].to_spin, memory_order_relaxed),
	};
	return *lock;
}

const struct tek_lock_kind tek_sync__lock_auto = {
	.name = "auto",
	.sleeps = true,
	.lock = lock,
	.try = try,
	.lock_until = lock_until,
	.unlock = unlock,
	.is_locked = is_locked,
};
