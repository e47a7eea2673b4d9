/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the barriers have in common that count in one place and release in another: central, block, auto.
 *
 * The place is memory that is never freed and never anything else: whoever comes out late reads the round there, of
 * another barrier by then, and sees that it is over, for rounds are numbered on from one barrier to the next.  So nobody
 * has to say that it is out, and destroy() waits for nobody.
 */
#ifndef TEK_SYNC_BARRIER_ROUND_H
#define TEK_SYNC_BARRIER_ROUND_H

#include "sync/barrier.h"
#include "sync/waiting.h"

#include <stdatomic.h>

struct tek_round {
	/* The upper half is the number of the round, the lower half how many have arrived in it. */
	_Atomic uint64_t arrived __attribute__((aligned(64)));
	struct tek_round *next; /* of those that are free */
	/* Rounds that are over, times 2; odd: somebody sleeps until the next one is. */
	atomic_uint over __attribute__((aligned(64)));
	/* For who spins, then sleeps: for how long, and how often that was in vain. */
	atomic_uint turns, failures;
	bool crowded; /* auto */
};

int tek__round_init(struct tek_barrier *barrier, unsigned int count);
int tek__round_destroy(struct tek_barrier *barrier);

/* Arrives.  The last one: returns true, and everybody is released. Otherwise *target is what to wait for. */
bool tek__round_arrive(struct tek_barrier *barrier, unsigned int *target);

/* Acquires what all have released who have arrived. */
static inline bool tek__round_is_over(struct tek_round *place, unsigned int target)
{
	if ((int)(atomic_load_explicit(&place->over, memory_order_relaxed) - target) < 0)
		return false;
	(void)atomic_load_explicit(&place->over, memory_order_acquire);
	return true;
}

/* Waits: if it spins, for as long as that has paid until now; then it lets others run; at last it sleeps. */
void tek__round_wait(struct tek_round *place, unsigned int target, bool spins);

#define TEK_BARRIER_TURNS 1024u

/*
 * One turn of who waits at a barrier.  Others of its worker have to arrive, too; and so have those of its CPU, where
 * threads outnumber CPUs: a switch costs less than so many turns.
 */
static inline void tek__barrier_spin(struct tek_spinning *spinning)
{
	tek__spin(spinning);
	if (spinning->turns % TEK_BARRIER_TURNS == 0 || tek__on_user_level())
		tek__give_way();
}

#endif
