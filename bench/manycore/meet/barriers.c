/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * barriers - how often a second can all threads meet (rtos-linux-scalability-2018, 4.4)?
 *
 * As streamcluster does it: 100,000 barriers with little work between.  All kinds, and
 * pthread_barrier_wait(3), take turns in each round.  One line of JSON for each kind and number of
 * threads: the median of the rounds.  A measurement is ended after a while, and what was done until
 * then counts.
 */
#include "../../response/clock.h"
#include "../../response/median.h"
#include "crowd.h"
#include "sync/barrier.h"

#include <err.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] = "usage: barriers [--threads N,N...] [--kinds NAME,NAME...] [--times N] "
			    "[--rounds N] [--limit-ms N]\n";

static struct crowd_options options = {.times = 100000, .rounds = 5, .limit_ms = 1000};

/* ---- the C library's, as one more kind ---- */

static pthread_barrier_t pthread;

static int pthread_init(struct tek_sync_barrier *barrier, unsigned int count)
{
	(void)barrier;
	return pthread_barrier_init(&pthread, NULL, count);
}

static bool pthread_wait(struct tek_sync_barrier *barrier)
{
	(void)barrier;
	return pthread_barrier_wait(&pthread) == PTHREAD_BARRIER_SERIAL_THREAD;
}

static int pthread_destroy(struct tek_sync_barrier *barrier)
{
	(void)barrier;
	return pthread_barrier_destroy(&pthread);
}

static const struct tek_barrier_kind of_pthread = {
	.name = "pthread",
	.init = pthread_init,
	.wait = pthread_wait,
	.destroy = pthread_destroy,
};

/* ---- */

static const struct tek_barrier_kind *kind;
static struct tek_sync_barrier barrier;
static uint64_t deadline_ns;
/*
 * The number of rounds.  The last thread at a barrier may lower it; all threads see that after the
 * next one.
 */
static _Alignas(128) atomic_ullong most;
static _Alignas(128) struct {
	uint64_t done;
	char rest[120];
} share_of[CROWD_MOST];

static void meet(unsigned int number)
{
	uint64_t i;

	for (i = 0; i < atomic_load_explicit(&most, memory_order_relaxed); i++) {
		share_of[number].done++;
		const bool last = kind->wait(&barrier);
		if (last && i % 16 == 0 && i + 2 < atomic_load(&most) && clock_ns() > deadline_ns)
			atomic_store(&most, i + 2);
	}
}

static double measure(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		share_of[i].done = 0;
	if (kind->init(&barrier, count))
		errx(EXIT_FAILURE, "no barrier for %u threads", count);
	atomic_store(&most, options.times);
	deadline_ns = clock_ns() + options.limit_ms * NS_PER_MS;
	const uint64_t ns = crowd_run(count, meet);
	for (unsigned int i = 0; i < count; i++)
		if (share_of[i].done != atomic_load(&most))
			errx(EXIT_FAILURE, "%s with %u threads: one came too often", kind->name,
			     count);
	if (kind->destroy(&barrier))
		errx(EXIT_FAILURE, "%s: somebody is still there", kind->name);
	return (double)atomic_load(&most) * 1e9 / (double)ns;
}

int main(int argc, char **argv)
{
	static double results[KINDS_MOST][100];
	const struct tek_barrier_kind *kinds[KINDS_MOST];
	unsigned int all = 0;

	crowd_options(&options, argc, argv, usage);
	for (unsigned int i = 0; tek_sync__barrier_kinds[i]; i++)
		if (crowd_wants(&options, tek_sync__barrier_kinds[i]->name))
			kinds[all++] = tek_sync__barrier_kinds[i];
	if (crowd_wants(&options, of_pthread.name))
		kinds[all++] = &of_pthread;
	if (!all)
		errx(EXIT_FAILURE, "--kinds: there is none of these");
	for (unsigned int t = 0; t < options.thread_counts; t++) {
		for (unsigned int round = 0; round < options.rounds; round++)
			for (unsigned int i = 0; i < all; i++) {
				kind = kinds[i];
				results[i][round] = measure(options.threads[t]);
			}
		for (unsigned int i = 0; i < all; i++)
			printf("{\"kind\": \"%s\", \"threads\": %u, \"metric\": "
			       "\"barriers_per_second\", "
			       "\"value\": %.0f}\n",
			       kinds[i]->name, options.threads[t],
			       median(results[i], options.rounds));
		fflush(stdout);
	}
	return EXIT_SUCCESS;
}
