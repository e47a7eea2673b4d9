/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Dissemination barrier: in step k each thread notifies the one 2^k places further on that it, and
 * all threads that it knows of, have arrived. After log2(count) steps each thread knows of all, and
 * no line has many writers.
 *
 * D. Hensgen, R. Finkel and U. Manber, Two Algorithms for Barrier Synchronization (1988);
 * Mellor-Crummey and Scott (1991), 3.3. There each thread keeps its place for ever.
 * pthread_barrier_wait() does not identify the thread, so a counter assigns places anew in each
 * round. Counters of notifications replace flags: a late thread of one round may notify after an
 * early one of the next. Their exchange is harmless: by the counter of places the early thread has
 * acquired the arrival of the whole round before.
 */
#include "sync/barrier_round.h"

#include <errno.h>
#include <stdlib.h>

#define LINE 64u

struct place {
	_Atomic uint64_t tickets __attribute__((aligned(64)));
	unsigned int steps;
	size_t slot_words;
	/*
	 * For each place in the round: how often a thread has left it, and its notifications in
	 * each step.
	 */
	atomic_uint slots[] __attribute__((aligned(64)));
};

static atomic_uint *slot(struct place *place, unsigned int index)
{
	return &place->slots[index * place->slot_words];
}

static int init(struct tek_sync_barrier *barrier, unsigned int count)
{
	unsigned int steps = 0;
	size_t bytes;

	while (((uint64_t)1 << steps) < count)
		steps++;
	const size_t slot_bytes = ((steps + 1) * sizeof(atomic_uint) + LINE - 1) / LINE * LINE;
	if (__builtin_mul_overflow(slot_bytes, count, &bytes) ||
	    __builtin_add_overflow(bytes, sizeof(struct place), &bytes))
		return ENOMEM;
	struct place *place = aligned_alloc(LINE, bytes);
	if (!place)
		return ENOMEM;
	atomic_init(&place->tickets, 0);
	place->steps = steps;
	place->slot_words = slot_bytes / sizeof(atomic_uint);
	for (size_t i = 0; i < place->slot_words * count; i++)
		atomic_init(&place->slots[i], 0);
	*barrier = (struct tek_sync_barrier){.count = count, .place = place};
	return 0;
}

static bool wait(struct tek_sync_barrier *barrier)
{
	struct place *place = barrier->place;
	const unsigned int count = barrier->count;
	const uint64_t ticket = atomic_fetch_add_explicit(&place->tickets, 1, memory_order_acq_rel);
	const unsigned int me = (unsigned int)(ticket % count);
	const unsigned int round = (unsigned int)(ticket / count) + 1;
	atomic_uint *mine = slot(place, me);
	struct tek_spinning spinning = {0};

	for (unsigned int step = 0; step < place->steps; step++) {
		const unsigned int other = (unsigned int)((me + ((uint64_t)1 << step)) % count);
		/* Releases what was acquired in the steps before, too. */
		atomic_fetch_add_explicit(slot(place, other) + 1 + step, 1, memory_order_release);
		while ((int)(atomic_load_explicit(mine + 1 + step, memory_order_acquire) - round) <
		       0)
			tek_sync__barrier_spin(&spinning);
	}
	/* The last access. */
	atomic_fetch_add_explicit(mine, 1, memory_order_release);
	return me == count - 1;
}

/* Waits for the threads that are leaving. */
static int destroy(struct tek_sync_barrier *barrier)
{
	struct place *place = barrier->place;
	const uint64_t tickets = atomic_load_explicit(&place->tickets, memory_order_relaxed);
	const unsigned int rounds = (unsigned int)(tickets / barrier->count);
	struct tek_spinning spinning = {0};

	if (tickets % barrier->count)
		return EBUSY;
	for (unsigned int i = 0; i < barrier->count; i++)
		while (atomic_load_explicit(slot(place, i), memory_order_acquire) != rounds)
			tek_sync__spin(&spinning);
	barrier->place = NULL;
	free(place);
	return 0;
}

const struct tek_barrier_kind tek_sync__barrier_dissemination = {
	.name = "dissemination",
	.init = init,
	.wait = wait,
	.destroy = destroy,
};
