/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A time-published queue lock: who waits in the queue writes down again and again what time it is, so who passes the
 * turn on sees which of them runs, and passes over those that do not.  These find that out when they run again, and
 * queue anew.  Who has waited for long takes its holder for preempted and gives way.
 *
 * After B. He, W. N. Scherer, M. L. Scott: Preemption Adaptivity in Time-Published Queue-Based Spin Locks (2005), with
 * two changes.  What is passed on is not the lock but the turn to try for it next, and whoever comes by takes it if it is
 * free: so nobody waits for a hand-over to a thread that was preempted a moment ago, and a thread that runs alone is as
 * fast as with a test-and-set lock.  And nodes are on the stacks of those who wait, as K42's (lock_k42.c): nobody leaves
 * the queue on its own.
 *
 *	first	the last of the queue of those who wait; NULL: nobody
 *	second	HELD, and WANTED: whose turn it is has tried for long
 */
#include "sync/lock.h"
#include "sync/poll.h"
#include "sync/waiting.h"

#define HELD 1u
#define WANTED 2u

/* Who has not written the time for so long does not run.  A turn of spinning is shorter by far. */
#define STALE_US 20
/* In turn for so long, it says that it wants it... */
#define PATIENCE_US 200
/* ...and who unlocks then stays away for so many turns. */
#define TURNS_AWAY 32
/* From look to look; from giving way to giving way. */
#define TURNS_APART 16
#define TURNS_TO_WAY 64

enum { WAITS, ITS_TURN, PASSED_OVER };

struct waiter {
	_Atomic(struct waiter *) next;
	atomic_uint status;
	atomic_uint time_us;
};

static unsigned int now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned int)now.tv_sec * 1000000u + (unsigned int)(now.tv_nsec / 1000);
}

/* Acquires: synchronises with the store that unlocks.  An exchange could take WANTED away, and is no faster. */
static bool take(struct tek_lock *lock)
{
	uintptr_t held = 0;

	return atomic_compare_exchange_strong_explicit(&lock->second, &held, HELD,
						       memory_order_acquire, memory_order_relaxed);
}

static bool try(struct tek_lock *lock)
{
	return atomic_load_explicit(&lock->second, memory_order_relaxed) == 0 && take(lock);
}

/* Releases what is known of the queue to the one that is called, which acquires it in wait_for_turn(). */
static void call(struct waiter *waiter, unsigned int status)
{
	atomic_store_explicit(&waiter->status, status, memory_order_release);
}

/* Who stands behind it; NULL: nobody, and it is no longer in the queue. */
static struct waiter *take_out(struct tek_lock *lock, struct waiter *waiter)
{
	struct tek_spinning spinning = {0};
	uintptr_t last = (uintptr_t)waiter;
	struct waiter *next = atomic_load_explicit(&waiter->next, memory_order_acquire);

	if (!next && atomic_compare_exchange_strong_explicit(
			     &lock->first, &last, 0, memory_order_release, memory_order_relaxed))
		return NULL;
	while (!next) {
		tek__spin(&spinning);
		/* Who comes may have been preempted before it said so, and waits for this CPU. */
		if (spinning.turns % TURNS_TO_WAY == 0)
			tek__give_way();
		next = atomic_load_explicit(&waiter->next, memory_order_acquire);
	}
	return next;
}

/* The turn of the one that runs and has waited longest.  A node is not touched after its thread was called. */
static void pass_turn(struct tek_lock *lock, struct waiter *mine)
{
	struct waiter *waiter = take_out(lock, mine), *next;

	for (; waiter; waiter = next) {
		/* Its own time may be later than ours: it runs, then. */
		const unsigned int time = atomic_load_explicit(&waiter->time_us,
							       memory_order_relaxed);
		if ((int)(now_us() - time) <= STALE_US) {
			call(waiter, ITS_TURN);
			return;
		}
		next = take_out(lock, waiter);
		call(waiter, PASSED_OVER);
	}
}

static void publish(struct waiter *waiter)
{
	atomic_store_explicit(&waiter->time_us, now_us(), memory_order_relaxed);
}

/* Whether its turn has come; otherwise it was passed over, and is no longer in the queue. */
static bool wait_for_turn(struct waiter *waiter)
{
	struct tek_spinning spinning = {0};
	unsigned int status;

	while ((status = atomic_load_explicit(&waiter->status, memory_order_acquire)) == WAITS) {
		publish(waiter);
		tek__spin(&spinning);
		if (spinning.turns % TURNS_TO_WAY == 0)
			tek__give_way();
	}
	return status == ITS_TURN;
}

static void want(struct tek_lock *lock)
{
	uintptr_t held = HELD;

	atomic_compare_exchange_strong_explicit(&lock->second, &held, HELD | WANTED,
						memory_order_relaxed, memory_order_relaxed);
}

/* It is this thread's turn: no other one of the queue tries. */
static void take_turn(struct tek_lock *lock)
{
	struct tek_spinning spinning = {0};
	const unsigned int since = now_us();
	unsigned int turns = 1;

	while (!try(lock)) {
		for (unsigned int i = 0; i < turns; i++)
			tek__spin(&spinning);
		if (turns < TURNS_APART) {
			turns *= 2;
			continue;
		}
		if ((int)(now_us() - since) > PATIENCE_US)
			want(lock);
		if (spinning.turns / TURNS_APART % (TURNS_TO_WAY / TURNS_APART) == 0)
			tek__give_way();
	}
}

/*
 * The exchange releases the node to who comes next, and acquires that of the one before.  The lock itself is acquired by
 * try() alone.
 */
static __attribute__((noinline)) int wait_in_queue(struct tek_lock *lock)
{
	struct waiter waiter;
	bool has_turn;

	do {
		atomic_init(&waiter.next, NULL);
		atomic_init(&waiter.status, WAITS);
		atomic_init(&waiter.time_us, now_us());
		struct waiter *before = (struct waiter *)atomic_exchange_explicit(
			&lock->first, (uintptr_t)&waiter, memory_order_acq_rel);
		if (before)
			atomic_store_explicit(&before->next, &waiter, memory_order_release);
		has_turn = !before || wait_for_turn(&waiter);
	} while (!has_turn);
	take_turn(lock);
	pass_turn(lock, &waiter);
	return 0;
}

static int lock(struct tek_lock *lock)
{
	return take(lock) ? 0 : wait_in_queue(lock);
}

/* Beside the queue: whoever comes by may take it. */
static int lock_until(struct tek_lock *lock, struct tek_until until)
{
	return tek__poll_until(lock, try, until);
}

/* A WANTED that is said between the two is lost, and said again. */
static __attribute__((noinline)) int unlock_wanted(struct tek_lock *lock)
{
	const uintptr_t seen = atomic_load_explicit(&lock->second, memory_order_relaxed);

	atomic_store_explicit(&lock->second, 0, memory_order_release);
	for (int i = 0; seen & WANTED && i < TURNS_AWAY; i++)
		tek__turn();
	return 0;
}

/* To read the word that was written last takes longer than to read the other one: 3 ns of 10. */
static int unlock(struct tek_lock *lock)
{
	if (atomic_load_explicit(&lock->first, memory_order_relaxed) != 0)
		return unlock_wanted(lock);
	atomic_store_explicit(&lock->second, 0, memory_order_release);
	return 0;
}

static bool is_locked(const struct tek_lock *lock)
{
	return atomic_load_explicit(&lock->second, memory_order_relaxed) != 0;
}

const struct tek_lock_kind tek__lock_tp = {
	.name = "tp",
	.about = "spins in a queue that passes over those that are preempted",
	.lock = lock,
	.try = try,
	.lock_until = lock_until,
	.unlock = unlock,
	.is_locked = is_locked,
};
