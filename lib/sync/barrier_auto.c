/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Chooses at run time. Where a round has more threads than the process has CPUs, a waiter yields at
 * once: a thread that has not arrived yet needs the CPU. Otherwise it is as `block`.
 */
#include "sync/barrier_round.h"

#include <sched.h>

/* More than 1024: as many as there may be. */
static unsigned int cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned int)CPU_COUNT(&set)
							    : CPU_SETSIZE;
}

static int init(struct tek_sync_barrier *barrier, unsigned int count)
{
	int error = tek_sync__round_init(barrier, count);

	if (!error) {
		struct tek_round *place = barrier->place;
		place->crowded = count > cpus();
	}
	return error;
}

static bool wait(struct tek_sync_barrier *barrier)
{
	struct tek_round *place = barrier->place;
	unsigned int target;

	/* Before it arrives: once the round is over the place may be another barrier's. */
	const bool crowded = place->crowded;
	if (tek_sync__round_arrive(barrier, &target))
		return true;
	tek_sync__round_wait(place, target, !crowded);
	return false;
}

const struct tek_barrier_kind tek_sync__barrier_auto = {
	.name = "auto",
	.sleeps = true,
	.init = init,
	.wait = wait,
	.destroy = tek_sync__round_destroy,
};
