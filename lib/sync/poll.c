/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/poll.h"

#include <time.h>

/*
 * Limits of yielding, in number and time: where other threads need the CPU for longer, it sleeps.
 */
#define WAYS 8
#define PATIENCE_NS 100000

__thread unsigned int tek_sync__spin_halvings;

static long ns_since(const struct timespec *then)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - then->tv_sec) * 1000000000L + (now.tv_nsec - then->tv_nsec);
}

/* Not for real-time threads: the threads that should run then may be of lower priority. */
bool tek_sync__poll_patiently(struct tek_lock *lock, bool (*try)(struct tek_lock *))
{
	struct timespec begin;

	if (try(lock))
		return true;
	if (tek_sync__spin_limit == 0 || tek_sync__is_real_time())
		return false;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int i = 0; i < WAYS && ns_since(&begin) < PATIENCE_NS; i++) {
		tek_sync__give_way();
		if (try(lock) ||
		    tek_sync__poll_apart(lock, try, TEK_FOR_EVER, TEK_ITERATIONS_APART))
			return true;
	}
	return false;
}
