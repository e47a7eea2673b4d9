/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Spin, then sleep: the central barrier for threads that have better use for their CPU than to spin
 * for long. It spins for longer where that has been enough, and for less long where it was in vain.
 * The last one makes a system call only if a thread sleeps.
 */
#include "sync/barrier_round.h"

static bool wait(struct tek_sync_barrier *barrier)
{
	struct tek_round *place = barrier->place;
	unsigned int target;

	if (tek_sync__round_arrive(barrier, &target))
		return true;
	tek_sync__round_wait(place, target, true);
	return false;
}

const struct tek_barrier_kind tek_sync__barrier_block = {
	.name = "block",
	.sleeps = true,
	.init = tek_sync__round_init,
	.wait = wait,
	.destroy = tek_sync__round_destroy,
};
