/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The common part of the barriers that count in one place and release in another: central, block,
 * auto.
 *
 * The place is memory that is never freed and never reused for another purpose. Rounds are numbered
 * on from one barrier to the next. A late thread therefore reads a later round there, of another
 * barrier perhaps, and sees that its own is over. No thread reports that it has left, and destroy()
 * waits for no thread.
 */
#ifndef TEK_SYNC_BARRIER_ROUND_H
#define TEK_SYNC_BARRIER_ROUND_H

#include "sync/barrier.h"
#include "sync/waiting.h"

#include <stdatomic.h>

struct tek_round {
	/* The upper half is the number of the round, the lower half how many have arrived in it. */
	_Atomic uint64_t arrived __attribute__((aligned(64)));
	struct tek_round *next; /* next free one */
	/* Completed rounds, times 2; odd: a thread sleeps until the next one is complete. */
	atomic_uint over __attribute__((aligned(64)));
	/* For waiters that spin, then sleep: the spin iterations, and how often they failed. */
	atomic_uint iterations, failures;
	bool crowded; /* auto */
};

int tek_sync__round_init(struct tek_sync_barrier *barrier, unsigned int count);
int tek_sync__round_destroy(struct tek_sync_barrier *barrier);

/*
 * Arrives. The last thread: returns true, and all waiters are released. Otherwise *target is the
 * value to wait for.
 */
bool tek_sync__round_arrive(struct tek_sync_barrier *barrier, unsigned int *target);

/* Acquires what all arrived threads have released. */
static inline bool tek_sync__round_is_over(struct tek_round *place, unsigned int target)
{
	if ((int)(atomic_load_explicit(&place->over, memory_order_relaxed) - target) < 0)
		return false;
	(void)atomic_load_explicit(&place->over, memory_order_acquire);
	return true;
}

/*
 * Waits. If `spins`, it first spins as long as that has paid so far; then it yields; at last it
 * sleeps.
 */
void tek_sync__round_wait(struct tek_round *place, unsigned int target, bool spins);

#define TEK_BARRIER_ITERATIONS 1024u

/*
 * One spin iteration of a waiter at a barrier. Other threads of its worker have to arrive, too; so
 * have those of its CPU where threads outnumber CPUs. A switch costs less than
 * TEK_BARRIER_ITERATIONS iterations.
 */
static inline void tek_sync__barrier_spin(struct tek_spinning *spinning)
{
	tek_sync__spin(spinning);
	if (spinning->iterations % TEK_BARRIER_ITERATIONS == 0 || tek_sync__on_user_level())
		tek_sync__give_way();
}

#endif
