/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sense-reversing central barrier: threads count themselves in one line, and spin on another one,
 * which the last one changes. Now and then they yield to threads that may not have arrived yet. The
 * sense is the number of the round, not its parity, so that no thread can take one round for
 * another.
 *
 * J. Mellor-Crummey and M. Scott, Algorithms for Scalable Synchronization on Shared-Memory
 * Multiprocessors (1991), 3.1.
 */
#include "sync/barrier_round.h"

static bool wait(struct tek_sync_barrier *barrier)
{
	struct tek_round *place = barrier->place;
	struct tek_spinning spinning = {0};
	unsigned int target;

	if (tek_sync__round_arrive(barrier, &target))
		return true;
	while (!tek_sync__round_is_over(place, target))
		tek_sync__barrier_spin(&spinning);
	return false;
}

const struct tek_barrier_kind tek_sync__barrier_central = {
	.name = "central",
	.init = tek_sync__round_init,
	.wait = wait,
	.destroy = tek_sync__round_destroy,
};
