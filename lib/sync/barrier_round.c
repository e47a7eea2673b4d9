/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/barrier_round.h"

#include "sync/guard.h"
#include "sync/parking.h"

#include <errno.h>
#include <limits.h>
#include <sys/mman.h>

/*
 * Threads meet after work of about the same length, so it may pay to spin for longer than for a
 * lock, and longer than a wake-up takes. A woken thread comes late to the next round; if the other
 * threads sleep by then, all sleep in each later round. Spinning does not pay where other programs
 * have the CPUs, or threads are placed badly.
 */
#define ITERATIONS_MOST times_limit(32)
#define ITERATIONS_BEGIN times_limit(8)
#define PROBE 64u /* so many times in vain, then for once as long as it may be */
/* Where the missing threads can run, they arrive in less time than sleeping and waking takes. */
#define YIELDS 8u

#define BLOCK_BYTES 4096u
#define ROUND ((uint64_t)1 << 32)

static unsigned int times_limit(unsigned int times)
{
	return tek_sync__spin_limit > UINT_MAX / times ? UINT_MAX : tek_sync__spin_limit * times;
}

static struct tek_round *spare;
static atomic_uint spare_guard;

/* Under the lock: from the kernel, because allocators may use barriers. */
static void get_more(void)
{
	struct tek_round *places = mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (places == MAP_FAILED)
		return;
	for (size_t i = 0; i < BLOCK_BYTES / sizeof(*places); i++) {
		places[i].next = spare;
		spare = &places[i];
	}
}

int tek_sync__round_init(struct tek_sync_barrier *barrier, unsigned int count)
{
	const int before = errno;

	tek_sync__guard_hold(&spare_guard);
	if (!spare)
		get_more();
	struct tek_round *place = spare;
	if (place)
		spare = place->next;
	tek_sync__guard_let_go(&spare_guard);
	errno = before;
	if (!place)
		return ENOMEM;
	/*
	 * Rounds go on where `arrived` stands: the last thread of the previous barrier may be about
	 * to complete its round.
	 */
	atomic_store_explicit(&place->iterations, ITERATIONS_BEGIN, memory_order_relaxed);
	*barrier = (struct tek_sync_barrier){.count = count, .place = place};
	return 0;
}

int tek_sync__round_destroy(struct tek_sync_barrier *barrier)
{
	struct tek_round *place = barrier->place;

	if ((uint32_t)atomic_load_explicit(&place->arrived, memory_order_relaxed))
		return EBUSY;
	barrier->place = NULL;
	tek_sync__guard_hold(&spare_guard);
	place->next = spare;
	spare = place;
	tek_sync__guard_let_go(&spare_guard);
	return 0;
}

/* Completes a round. Releases what all arrived threads have written. */
static void release(struct tek_round *place)
{
	unsigned int over = atomic_load_explicit(&place->over, memory_order_relaxed);

	while (!atomic_compare_exchange_weak_explicit(&place->over, &over, (over & ~1u) + 2,
						      memory_order_release, memory_order_relaxed))
		;
	if (over & 1)
		tek_sync__unpark(&place->over, UINT_MAX);
}

/*
 * Where more threads come than make a round, some may arrive in the next one before the last of
 * this one has begun it, and two last ones may then release in either order. The sum is right in
 * any order. A thread that arrives in a round acquires what the round before has released, so it
 * may release that round.
 */
bool tek_sync__round_arrive(struct tek_sync_barrier *barrier, unsigned int *target)
{
	struct tek_round *place = barrier->place;
	const unsigned int count = barrier->count;
	const uint64_t arrived = atomic_fetch_add_explicit(&place->arrived, 1,
							   memory_order_acq_rel);
	uint32_t here = (uint32_t)arrived;
	uint32_t round = (uint32_t)(arrived >> 32);

	if (__builtin_expect(here >= count, 0)) {
		round += here / count;
		here %= count;
	}
	if (here == count - 1) {
		atomic_fetch_add_explicit(&place->arrived, ROUND - count, memory_order_relaxed);
		release(place);
		return true;
	}
	*target = (round + 1) * 2;
	return false;
}

static bool spin(struct tek_round *place, unsigned int target, unsigned int iterations)
{
	for (unsigned int i = 0; i < iterations; i++) {
		if (tek_sync__round_is_over(place, target))
			return true;
		tek__relax_cpu();
	}
	return tek_sync__round_is_over(place, target);
}

static bool give_way(struct tek_round *place, unsigned int target)
{
	for (unsigned int i = 0; i < YIELDS; i++) {
		tek_sync__give_way();
		if (tek_sync__round_is_over(place, target))
			return true;
	}
	return false;
}

static void sleep_until_over(struct tek_round *place, unsigned int target)
{
	unsigned int over;

	while ((int)((over = atomic_load_explicit(&place->over, memory_order_acquire)) - target) <
	       0) {
		/* The releasing thread sees the bit, or the exchange fails. */
		if ((over & 1) || atomic_compare_exchange_strong_explicit(
					  &place->over, &over, over | 1, memory_order_relaxed,
					  memory_order_relaxed))
			tek_sync__park(&place->over, over | 1, TEK_FOR_EVER);
	}
}

static void set_iterations(struct tek_round *place, unsigned int now, unsigned int next)
{
	if (next > ITERATIONS_MOST)
		next = ITERATIONS_MOST;
	/*
	 * A concurrent store by another thread is as good; so is the value that another barrier
	 * finds there.
	 */
	if (next != now)
		atomic_store_explicit(&place->iterations, next, memory_order_relaxed);
}

static bool spin_as_learned(struct tek_round *place, unsigned int target)
{
	const unsigned int now = atomic_load_explicit(&place->iterations, memory_order_relaxed);
	unsigned int iterations = now;

	if (atomic_load_explicit(&place->failures, memory_order_relaxed) % PROBE == PROBE - 1)
		iterations = ITERATIONS_MOST;
	if (spin(place, target, iterations)) {
		set_iterations(place, now,
			       iterations / 4 > now ? iterations / 4 : now + now / 8 + 1);
		return true;
	}
	atomic_fetch_add_explicit(&place->failures, 1, memory_order_relaxed);
	set_iterations(place, now, now / 2);
	return false;
}

void tek_sync__round_wait(struct tek_round *place, unsigned int target, bool spins)
{
	/* A user-level thread most likely waits for threads of its own worker. */
	if (spins && !tek_sync__on_user_level() && spin_as_learned(place, target))
		return;
	if (!give_way(place, target))
		sleep_until_over(place, target);
}
