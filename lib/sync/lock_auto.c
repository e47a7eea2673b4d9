/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A lock that chooses: it is a spin lock until somebody has waited for long, then one at which waiters sleep, until
 * nobody has slept for a while.
 *
 * After B.-H. Lim, A. Agarwal: Reactive Synchronization Algorithms for Multiprocessors (1994): it is two locks, of which the
 * one that is not used is always locked.  Its holder alone changes which one that is.
 *
 *	first	the spin lock: TAKEN, or 0
 *	second	0: that one is used; TO_PARK: and its holder is asked for the other one; PARKS: this one is used, with LOCKED,
 *		PARKED, OWED, or KEPT.  Behind it, turn.h
 *
 * An exchange locks the spin lock and a store unlocks it: nothing on a processor is done sooner.
 *
 * The exchange that locks one of the two acquires what the store or the exchange that unlocks it has released.  Who is about to
 * sleep writes PARKED into `second`; the exchange that unlocks either reads it or has come before, and then that was
 * refused.
 */
#include "sync/lock.h"
#include "sync/poll.h"
#include "sync/turn.h"

#define TAKEN 1u

#define TO_PARK 1u
#define PARKS 2u
#define LOCKED 4u
#define PARKED 8u /* somebody may sleep */
#define OWED 16u  /* who sleeps has been too late before: to be kept for those who sleep */
#define KEPT (PARKS | PARKED) /* free, for those who have slept; others let them come first */

/* So often in a row must a thread find that nobody has slept, at whichever locks, and this one spins again. */
#define CALM 4000u

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

static __thread unsigned int calm __attribute__((tls_model("initial-exec")));

static atomic_uint *spin_of(struct tek_lock *lock)
{
	return (atomic_uint *)&lock->first;
}

static atomic_uint *word_of(struct tek_lock *lock)
{
	return (atomic_uint *)&lock->second;
}

static atomic_uint *turn_of(struct tek_lock *lock)
{
	return word_of(lock) + 1;
}

static unsigned int read(atomic_uint *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

/* Looks first: where others sleep it is always taken, and nobody is to write there. */
static bool spin_try(struct tek_lock *lock)
{
	return !read(spin_of(lock)) &&
	       !atomic_exchange_explicit(spin_of(lock), TAKEN, memory_order_acquire);
}

static bool exchange(struct tek_lock *lock, unsigned int seen, unsigned int wanted)
{
	return atomic_compare_exchange_strong_explicit(word_of(lock), &seen, wanted,
						       memory_order_acquire, memory_order_relaxed);
}

/* Counts what it was not before. */
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

/* Whether it is one at which others sleep, and free. */
static bool is_free(unsigned int word)
{
	return (word & PARKS) && !(word & LOCKED);
}

static bool try(struct tek_lock *lock)
{
	if (spin_try(lock))
		return true;
	const unsigned int seen = read(word_of(lock));
	return is_free(seen) && exchange(lock, seen, seen | LOCKED);
}

/* Not what is kept for others. */
static bool look(struct tek_lock *lock)
{
	return spin_try(lock) ||
	       (read(word_of(lock)) == PARKS && exchange(lock, PARKS, PARKS | LOCKED));
}

/* For who has slept: it says PARKED also for others, as it cannot know that nobody else does. */
static bool look_again(struct tek_lock *lock)
{
	const unsigned int wanted = PARKS | LOCKED | PARKED;

	if (spin_try(lock)) {
		atomic_store_explicit(word_of(lock), wanted, memory_order_relaxed);
		note(lock, true);
		return true;
	}
	const unsigned int seen = read(word_of(lock));
	return is_free(seen) && exchange(lock, seen, wanted);
}

/* While others spin: 0, ETIMEDOUT or EINVAL.  A real-time thread looks each time as soon. */
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

/* What says that who sleeps now is to be woken. */
static unsigned int parked(unsigned int seen, bool has_slept)
{
	return seen | PARKED | (has_slept && tek__is_owed() ? OWED : 0);
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
		const unsigned int seen = read(word_of(lock));
		if (seen == KEPT) {
			tek__let_come_first();
			if (exchange(lock, KEPT, KEPT | LOCKED))
				return 0;
		} else if (seen & LOCKED) {
			const unsigned int wanted = parked(seen, has_slept);
			if (seen == wanted || exchange(lock, seen, wanted)) {
				error = tek__park(word_of(lock), wanted, until);
				has_slept = true;
			}
		} else if (!(seen & PARKS)) {
			(void)exchange(lock, 0, TO_PARK);
			error = nap(&ns, until);
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
	return look(lock) ? 0 : wait(lock, until);
}

static __attribute__((noinline)) int lock_slowly(struct tek_lock *lock)
{
	return lock_until(lock, TEK_FOR_EVER);
}

static int lock(struct tek_lock *lock)
{
	return spin_try(lock) ? 0 : lock_slowly(lock);
}

/* Whether nobody has slept for so long that it may spin again.  By a holder that let others sleep. */
static bool has_calmed(unsigned int seen)
{
	if (!(seen & PARKED) && ++calm < CALM)
		return false;
	calm = 0;
	return !(seen & PARKED);
}

/* The spin lock is unlocked last. */
static void let_go_and_wake(struct tek_lock *lock, unsigned int seen)
{
	const bool spins = !(seen & OWED) && has_calmed(seen);
	const unsigned int left = spins ? 0 : seen & OWED ? KEPT : PARKS;

	if (spins)
		note(lock, false);
	seen = atomic_exchange_explicit(word_of(lock), left, memory_order_release);
	if (spins)
		atomic_store_explicit(spin_of(lock), 0, memory_order_release);
	if (seen & PARKED)
		tek__unpark(word_of(lock), 1);
}

static __attribute__((noinline)) int unlock_slowly(struct tek_lock *lock)
{
	const unsigned int seen = read(word_of(lock));

	if (seen & LOCKED) {
		let_go_and_wake(lock, seen);
	} else if (!(seen & PARKS) && read(spin_of(lock))) {
		note(lock, true);
		atomic_store_explicit(word_of(lock), PARKS, memory_order_release);
	}
	return 0;
}

static int unlock(struct tek_lock *lock)
{
	if (__builtin_expect(read(word_of(lock)), 0))
		return unlock_slowly(lock);
	atomic_store_explicit(spin_of(lock), 0, memory_order_release);
	return 0;
}

static bool is_locked(const struct tek_lock *lock)
{
	const unsigned int seen = atomic_load_explicit((const atomic_uint *)&lock->second,
						       memory_order_relaxed);

	return seen & PARKS ? seen & LOCKED : tek__lock_has_first(lock);
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
