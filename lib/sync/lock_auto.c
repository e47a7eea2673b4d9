/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A lock that chooses: it is a spin lock until somebody has waited for long, then one at which waiters sleep, until
 * nobody has slept for a while.  What differs is how it is unlocked: by a plain store, or by an exchange that sees
 * whether somebody is to be woken.  That is settled when it is locked, by its holder.
 *
 * After B.-H. Lim, A. Agarwal: Reactive Synchronization Algorithms for Multiprocessors (1994): the holder alone may change
 * what the lock is.
 *
 *	first	a number, and LOCKED, PARKED, or KEPT
 *	second	the number of a free lock; PARKS: who locks it next is to let others sleep; OWED: who sleeps has been
 *		too late before, so it is to be kept for those who sleep.  Behind it, turn.h
 *
 * It is free when both have the same number and `first` no flags.  Who locks it so that others spin raises the number in
 * `first`, and its unlock the one in `second`: the instruction that locks it finds a word that nobody has just written,
 * which is a quarter of what locking and unlocking take on some processors.  Who locks it so that others may sleep sets
 * LOCKED and keeps the number.
 *
 * No number comes again in `first` once the one in `second` is past it (but after 2^30 times), so one that is found equal to a
 * number read from `second` before shows that the lock is free.
 */
#include "sync/lock.h"
#include "sync/poll.h"
#include "sync/turn.h"

#define LOCKED 1u /* others may sleep */
#define PARKED 2u /* and may do so already */
#define KEPT 2u   /* alone: free, for those who have slept; others let them come first */
#define FLAGS (LOCKED | PARKED)
#define PARKS 1u
#define OWED 2u
#define NEXT 4u /* number */

/* While it may not sleep it looks now and then: as long as it has waited, until it looks again. */
#define NAP_NS 50000
#define NAP_NS_MAX 200000

/* Where pointers have 32 bits there is no room for a turn: all have it at once. */
#define HAS_TURN (sizeof(uintptr_t) > sizeof(atomic_uint))

static atomic_ulong to_park, to_spin;
/* The first ones that changed. */
static struct {
	_Atomic(struct tek_lock *) lock;
	atomic_bool parks;
	atomic_ulong to_park, to_spin;
} changed[TEK_LOCK_AUTO_CHANGED];

unsigned int tek__lock_auto_calm = 4000;
static __thread unsigned int calm __attribute__((tls_model("initial-exec")));

static atomic_uint *word_of(struct tek_lock *lock)
{
	return (atomic_uint *)&lock->first;
}

static atomic_uint *number_of(struct tek_lock *lock)
{
	return (atomic_uint *)&lock->second;
}

static atomic_uint *turn_of(struct tek_lock *lock)
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

/* By what its words say. */
static bool has_holder(unsigned int seen, unsigned int number)
{
	return (seen & LOCKED) || (int)(free_one(seen) - free_one(number)) > 0;
}

/* Acquires: synchronises with the exchange that unlocks; with the store that unlocks does read_number(), before. */
static bool exchange(struct tek_lock *lock, unsigned int seen, unsigned int wanted)
{
	return atomic_compare_exchange_strong_explicit(word_of(lock), &seen, wanted,
						       memory_order_acquire, memory_order_relaxed);
}

/* Counts what it was not before: what asks for a change may do so twice. */
static void note(struct tek_lock *lock, bool parks)
{
	for (unsigned int i = 0; i < TEK_LOCK_AUTO_CHANGED; i++) {
		struct tek_lock *seen = NULL;
		if (!atomic_compare_exchange_strong_explicit(&changed[i].lock, &seen, lock,
							     memory_order_relaxed,
							     memory_order_relaxed) &&
		    seen != lock)
			continue;
		if (atomic_exchange_explicit(&changed[i].parks, parks, memory_order_relaxed) ==
		    parks)
			return;
		atomic_fetch_add_explicit(parks ? &changed[i].to_park : &changed[i].to_spin, 1,
					  memory_order_relaxed);
		break;
	}
	atomic_fetch_add_explicit(parks ? &to_park : &to_spin, 1, memory_order_relaxed);
}

/* So that others may sleep.  `seen` is as it was and free, with that number. */
static bool take_as(struct tek_lock *lock, unsigned int seen, unsigned int number,
		    unsigned int flags)
{
	if (!exchange(lock, seen, free_one(number) | flags))
		return false;
	/* While it is LOCKED this says so, too: unlock() looks here only.  It may have been cleared since it was read. */
	if (!(atomic_load_explicit(number_of(lock), memory_order_relaxed) & PARKS)) {
		atomic_store_explicit(number_of(lock), free_one(number) | PARKS,
				      memory_order_relaxed);
		note(lock, true);
	}
	return true;
}

static bool take(struct tek_lock *lock)
{
	const unsigned int number = read_number(lock);

	if (number & PARKS)
		return take_as(lock, free_one(number), number, LOCKED);
	return exchange(lock, free_one(number), free_one(number) + NEXT);
}

/*
 * No holder puts the number in `second` before the other one.  Where a second unlock has done so, which was late, the lock is free
 * indeed, and is put in order.
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
	       take_as(lock, free_one(number) | KEPT, number, FLAGS);
}

/* Looks first: others write there. */
static bool look(struct tek_lock *lock)
{
	return is_free(lock) && take(lock);
}

/* For who has slept: it says PARKED also for others, as it cannot know that nobody else does. */
static bool look_again(struct tek_lock *lock)
{
	(void)is_free(lock); /* puts it in order */
	const unsigned int number = read_number(lock);
	const unsigned int seen = atomic_load_explicit(word_of(lock), memory_order_relaxed);

	return (seen == free_one(number) || seen == (free_one(number) | KEPT)) &&
	       take_as(lock, seen, number, FLAGS);
}

/* The next one who locks it will let others sleep.  An unlock at the same time may undo that: it is asked again, then. */
static void ask_to_park(struct tek_lock *lock)
{
	if (!(atomic_load_explicit(number_of(lock), memory_order_relaxed) & PARKS) &&
	    !(atomic_fetch_or_explicit(number_of(lock), PARKS, memory_order_relaxed) & PARKS))
		note(lock, true);
}

/* As long as this one holder has it: 0, ETIMEDOUT or EINVAL.  A real-time thread looks each time as soon. */
static int nap(long *ns, struct tek_until until)
{
	struct tek_spinning spinning = {0};
	int error = tek__spin_until(&spinning, until);

	if (error)
		return error;
	tek__nap(*ns);
	if (*ns < NAP_NS_MAX && !tek__is_real_time())
		*ns *= 2;
	return 0;
}

/* Until it may be free; 0, ETIMEDOUT, EINVAL. */
static int sleep(struct tek_lock *lock, unsigned int seen, bool is_owed, struct tek_until until)
{
	if (is_owed)
		atomic_fetch_or_explicit(number_of(lock), OWED, memory_order_relaxed);
	return tek__park(word_of(lock), seen, until);
}

/* Who has slept and goes without the lock wakes another one in its place. */
static int take_turn(struct tek_lock *lock, struct tek_until until)
{
	bool has_slept = false;
	long ns = NAP_NS;
	int error = 0;

	do {
		bool (*const again)(struct tek_lock *) = has_slept ? look_again : look;
		if (again(lock) || (!until.at && tek__poll_patiently(lock, again)))
			return 0;
		const unsigned int number = read_number(lock);
		const unsigned int seen = atomic_load_explicit(word_of(lock), memory_order_relaxed);
		const unsigned int parked = seen | PARKED;
		if (seen == free_one(number))
			continue;
		if (seen == (free_one(number) | KEPT)) {
			tek__let_come_first();
			if (take_as(lock, seen, number, FLAGS))
				return 0;
		} else if (!(seen & LOCKED)) {
			ask_to_park(lock);
			error = nap(&ns, until);
		} else if (seen == parked || exchange(lock, seen, parked)) {
			error = sleep(lock, parked, has_slept && tek__is_owed(), until);
			has_slept = true;
		}
	} while (!error);
	if (has_slept)
		tek__unpark(word_of(lock), 1);
	return error;
}

static __attribute__((noinline)) int wait(struct tek_lock *lock, struct tek_until until)
{
	if (tek__poll(lock, look, until))
		return 0;
	return HAS_TURN ? tek__wait_in_turn(lock, turn_of(lock), until, take_turn)
			: take_turn(lock, until);
}

static int lock_until(struct tek_lock *lock, struct tek_until until)
{
	return take(lock) ? 0 : wait(lock, until);
}

static __attribute__((noinline)) int lock_slowly(struct tek_lock *lock)
{
	return lock_until(lock, TEK_FOR_EVER);
}

/* As take(), and so few instructions where nobody sleeps or has slept. */
static int lock(struct tek_lock *lock)
{
	const unsigned int number = read_number(lock);

	if (__builtin_expect(number & (PARKS | OWED), 0))
		return lock_slowly(lock);
	return exchange(lock, number, number + NEXT) ? 0 : lock_slowly(lock);
}

/* Whether nobody has slept for so long that it may spin again.  By a holder that let others sleep. */
static bool has_calmed(unsigned int seen)
{
	if (!(seen & PARKED) && ++calm < tek__lock_auto_calm)
		return false;
	calm = 0;
	return !(seen & PARKED);
}

/* By a holder that let others spin.  That one is OWED helps nobody where none is to sleep. */
static int let_go(struct tek_lock *lock, unsigned int number)
{
	const unsigned int asked = number & PARKS ? number & (PARKS | OWED) : 0;

	atomic_store_explicit(number_of(lock), (free_one(number) + NEXT) | asked,
			      memory_order_release);
	return 0;
}

/* By one that let others sleep.  The word may change meanwhile from LOCKED to PARKED, and not otherwise. */
static int let_go_and_wake(struct tek_lock *lock, unsigned int number, unsigned int seen)
{
	unsigned int left = free_one(number);

	if (number & OWED) {
		atomic_store_explicit(number_of(lock), left | PARKS, memory_order_relaxed);
		left |= KEPT;
	} else if (has_calmed(seen)) {
		atomic_store_explicit(number_of(lock), left, memory_order_relaxed);
		note(lock, false);
	}
	if (atomic_exchange_explicit(word_of(lock), left, memory_order_release) & PARKED)
		tek__unpark(word_of(lock), 1);
	return 0;
}

static __attribute__((noinline)) int unlock_slowly(struct tek_lock *lock, unsigned int number)
{
	const unsigned int seen = atomic_load_explicit(word_of(lock), memory_order_relaxed);

	if (!has_holder(seen, number))
		return 0;
	return seen & LOCKED ? let_go_and_wake(lock, number, seen) : let_go(lock, number);
}

/* Looks whether it is locked, and so that others spin, for who unlocks twice. */
static int unlock(struct tek_lock *lock)
{
	const unsigned int number = atomic_load_explicit(number_of(lock), memory_order_relaxed);
	const unsigned int seen = atomic_load_explicit(word_of(lock), memory_order_relaxed);

	if (__builtin_expect(number & (PARKS | OWED), 0) ||
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

void tek__lock_auto_counts(struct tek_lock_auto_counts *counts)
{
	*counts = (struct tek_lock_auto_counts){
		.to_park = atomic_load_explicit(&to_park, memory_order_relaxed),
		.to_spin = atomic_load_explicit(&to_spin, memory_order_relaxed),
	};
}

bool tek__lock_auto_changed(unsigned int number, const struct tek_lock **lock,
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

const struct tek_lock_kind tek__lock_auto = {
	.name = "auto",
	.about = "spins or sleeps, by what it has seen",
	.sleeps = true,
	.lock = lock,
	.try = try,
	.lock_until = lock_until,
	.unlock = unlock,
	.is_locked = is_locked,
};
