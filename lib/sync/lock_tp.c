/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A time-published queue lock. Each waiter in the queue writes the time again and again. The
 * designated waiter passes its role on to a waiter with a recent time, which runs, and skips
 * preempted ones. A skipped waiter joins the queue again when it runs. A waiter that has waited
 * for long takes the owner for preempted and yields.
 *
 * After Bijun He, W. N. Scherer, M. L. Scott: Preemption Adaptivity in Time-Published Queue-Based
 * Spin Locks (2005), with two changes. The queue passes on the role of designated waiter, not the
 * lock, and any thread takes the lock when it is free. So no thread waits for a hand-over to a
 * thread that was just preempted, and a single thread is as fast as with a test-and-set lock.
 * Nodes are on the waiters' stacks, as in K42 (lock_k42.c): a waiter cannot leave the queue alone.
 *
 *	first	the last waiter of the queue; NULL: none
 *	second	HELD, and WANTED: the designated waiter has tried for long
 */
#include "sync/lock.h"
#include "sync/poll.h"
#include "sync/waiting.h"

#define HELD 1u
#define WANTED 2u

/*
 * A waiter that has not written the time for so long does not run. A spin iteration is far shorter.
 */
#define STALE_US 20
/* A designated waiter sets WANTED after so long... */
#define PATIENCE_US 200
/* ...and the unlocker then stays away for so many spin iterations. */
#define ITERATIONS_AWAY 32
/* Spin iterations between two polls; between two yields. */
#define ITERATIONS_APART 16
#define ITERATIONS_TO_YIELD 64

enum { WAITS, DESIGNATED, PASSED_OVER };

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

/*
 * Acquires: synchronises with the store that unlocks. An exchange could erase WANTED, and is no
 * faster.
 */
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

/* Releases the queue's state to the waiter, which acquires it in wait_for_designation(). */
static void call(struct waiter *waiter, unsigned int status)
{
	atomic_store_explicit(&waiter->status, status, memory_order_release);
}

/* Returns the next waiter; NULL: none, and the queue is empty now. */
static struct waiter *take_out(struct tek_lock *lock, struct waiter *waiter)
{
	struct tek_spinning spinning = {0};
	uintptr_t last = (uintptr_t)waiter;
	struct waiter *next = atomic_load_explicit(&waiter->next, memory_order_acquire);

	if (!next && atomic_compare_exchange_strong_explicit(
			     &lock->first, &last, 0, memory_order_release, memory_order_relaxed))
		return NULL;
	while (!next) {
		tek_sync__spin(&spinning);
		/*
		 * The next waiter may have been preempted before it linked itself, and wait for
		 * this CPU.
		 */
		if (spinning.iterations % ITERATIONS_TO_YIELD == 0)
			tek_sync__give_way();
		next = atomic_load_explicit(&waiter->next, memory_order_acquire);
	}
	return next;
}

/*
 * Passes the role of designated waiter to the running waiter that has waited longest. A node is not
 * accessed after its thread was called.
 */
static void pass_designation(struct tek_lock *lock, struct waiter *mine)
{
	struct waiter *waiter = take_out(lock, mine), *next;

	for (; waiter; waiter = next) {
		/* Its time may be later than now_us(): then it runs. */
		const unsigned int time = atomic_load_explicit(&waiter->time_us,
							       memory_order_relaxed);
		if ((int)(now_us() - time) <= STALE_US) {
			call(waiter, DESIGNATED);
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

/* True: it is the designated waiter. False: it was skipped, and is no longer in the queue. */
static bool wait_for_designation(struct waiter *waiter)
{
	struct tek_spinning spinning = {0};
	unsigned int status;

	while ((status = atomic_load_explicit(&waiter->status, memory_order_acquire)) == WAITS) {
		publish(waiter);
		tek_sync__spin(&spinning);
		if (spinning.iterations % ITERATIONS_TO_YIELD == 0)
			tek_sync__give_way();
	}
	return status == DESIGNATED;
}

static void want(struct tek_lock *lock)
{
	uintptr_t held = HELD;

	atomic_compare_exchange_strong_explicit(&lock->second, &held, HELD | WANTED,
						memory_order_relaxed, memory_order_relaxed);
}

/* The caller is the designated waiter: no other thread of the queue tries. */
static void take_designated(struct tek_lock *lock)
{
	struct tek_spinning spinning = {0};
	const unsigned int since = now_us();
	unsigned int iterations = 1;

	while (!try(lock)) {
		for (unsigned int i = 0; i < iterations; i++)
			tek_sync__spin(&spinning);
		if (iterations < ITERATIONS_APART) {
			iterations *= 2;
			continue;
		}
		if ((int)(now_us() - since) > PATIENCE_US)
			want(lock);
		if (spinning.iterations / ITERATIONS_APART %
			    (ITERATIONS_TO_YIELD / ITERATIONS_APART) ==
		    0)
			tek_sync__give_way();
	}
}

/*
 * The exchange releases the node to the next waiter, and acquires the previous one's. Only try()
 * acquires the lock itself.
 */
static __attribute__((noinline)) int wait_in_queue(struct tek_lock *lock)
{
	struct waiter waiter;
	bool is_designated;

	do {
		atomic_init(&waiter.next, NULL);
		atomic_init(&waiter.status, WAITS);
		atomic_init(&waiter.time_us, now_us());
		struct waiter *before = (struct waiter *)atomic_exchange_explicit(
			&lock->first, (uintptr_t)&waiter, memory_order_acq_rel);
		if (before)
			atomic_store_explicit(&before->next, &waiter, memory_order_release);
		is_designated = !before || wait_for_designation(&waiter);
	} while (!is_designated);
	take_designated(lock);
	pass_designation(lock, &waiter);
	return 0;
}

static int lock(struct tek_lock *lock)
{
	return take(lock) ? 0 : wait_in_queue(lock);
}

/* Beside the queue: any thread may take a free lock. */
static int lock_until(struct tek_lock *lock, struct tek_until until)
{
	return tek_sync__poll_until(lock, try, until);
}

/* A WANTED that is set between the two is lost, and set again. */
static __attribute__((noinline)) int unlock_wanted(struct tek_lock *lock)
{
	const uintptr_t seen = atomic_load_explicit(&lock->second, memory_order_relaxed);

	atomic_store_explicit(&lock->second, 0, memory_order_release);
	for (int i = 0; seen & WANTED && i < ITERATIONS_AWAY; i++)
		tek_sync__iterate();
	return 0;
}

/* Reading the word that was written last takes longer than reading the other one: 3 ns of 10. */
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

const struct tek_lock_kind tek_sync__lock_tp = {
	.name = "tp",
	.lock = lock,
	.try = try,
	.lock_until = lock_until,
	.unlock = unlock,
	.is_locked = is_locked,
};
