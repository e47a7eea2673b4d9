/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * rwlocks - how often a second is a read-write lock had, by how many writers among the readers?
 *
 * Each thread locks, for writing in so many cases of 100, reads or changes 4 shared cache lines,
 * and unlocks.  All kinds, and pthread_rwlock_t, take turns in each round.  One line of JSON for
 * each kind, number of threads and share of writers: the median of the rounds.  A measurement is
 * ended after a while, and what was done until then counts.
 */
#include "../../response/clock.h"
#include "../../response/median.h"
#include "crowd.h"
#include "sync/rwlock.h"

#include <err.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES 4

static const char usage[] = "usage: rwlocks [--threads N,N...] [--writes PERCENT,PERCENT...] "
			    "[--kinds NAME,NAME...]\n"
			    "               [--times N] [--rounds N] [--limit-ms N]\n";

static struct crowd_options options = {
	.times = 100000, .rounds = 5, .limit_ms = 500, .shares = {0, 5, 50}, .share_counts = 3};

/* ---- the C library's, as one more kind ---- */

static union {
	struct tek_sync_rwlock tek;
	pthread_rwlock_t pthread;
	char line[128];
} lock __attribute__((aligned(128)));

static int pthread_read(struct tek_sync_rwlock *unused, struct tek_until until)
{
	(void)unused;
	(void)until;
	return pthread_rwlock_rdlock(&lock.pthread);
}

static int pthread_write(struct tek_sync_rwlock *unused, struct tek_until until)
{
	(void)unused;
	(void)until;
	return pthread_rwlock_wrlock(&lock.pthread);
}

static void pthread_unlock(struct tek_sync_rwlock *unused)
{
	(void)unused;
	pthread_rwlock_unlock(&lock.pthread);
}

static const struct tek_rwlock_kind of_pthread = {
	.name = "pthread",
	.read_until = pthread_read,
	.write_until = pthread_write,
	.unlock_read = pthread_unlock,
	.unlock_write = pthread_unlock,
};

/* ---- */

static const struct tek_rwlock_kind *kind;
static unsigned int share;
static uint64_t deadline_ns;
static _Alignas(128) volatile uint64_t lines[LINES][16];
static struct {
	uint64_t done, written;
	char rest[112];
} share_of[CROWD_MOST];

static void use(unsigned int number)
{
	unsigned int state = number * 7919 + 1;
	uint64_t done = 0, written = 0;

	while (done < options.times && (done % 64 || clock_ns() < deadline_ns)) {
		state = state * 1103515245 + 12345;
		if ((state >> 16) % 100 < share) {
			kind->write_until(&lock.tek, TEK_FOR_EVER);
			for (int i = 0; i < LINES; i++)
				lines[i][0]++;
			kind->unlock_write(&lock.tek);
			written++;
		} else {
			kind->read_until(&lock.tek, TEK_FOR_EVER);
			if (lines[0][0] != lines[LINES - 1][0])
				errx(EXIT_FAILURE, "%s: who reads sees half of a change",
				     kind->name);
			kind->unlock_read(&lock.tek);
		}
		done++;
	}
	share_of[number].done = done;
	share_of[number].written = written;
}

static double measure(unsigned int count)
{
	const uint64_t before = lines[0][0];
	uint64_t done = 0, written = 0;

	memset(&lock, 0, sizeof(lock));
	deadline_ns = clock_ns() + options.limit_ms * NS_PER_MS;
	const uint64_t ns = crowd_run(count, use);
	for (unsigned int i = 0; i < count; i++) {
		done += share_of[i].done;
		written += share_of[i].written;
	}
	if (lines[0][0] - before != written)
		errx(EXIT_FAILURE, "%s with %u threads: two wrote at the same time", kind->name,
		     count);
	return (double)done * 1e9 / (double)ns;
}

int main(int argc, char **argv)
{
	static double results[KINDS_MOST][100];
	const struct tek_rwlock_kind *kinds[KINDS_MOST];
	unsigned int all = 0;

	crowd_options(&options, argc, argv, usage);
	for (unsigned int i = 0; tek_sync__rwlock_kinds[i]; i++)
		if (crowd_wants(&options, tek_sync__rwlock_kinds[i]->name))
			kinds[all++] = tek_sync__rwlock_kinds[i];
	if (crowd_wants(&options, of_pthread.name))
		kinds[all++] = &of_pthread;
	if (!all)
		errx(EXIT_FAILURE, "--kinds: there is none of these");
	for (unsigned int t = 0; t < options.thread_counts; t++)
		for (unsigned int s = 0; s < options.share_counts; s++) {
			share = options.shares[s];
			for (unsigned int round = 0; round < options.rounds; round++)
				for (unsigned int i = 0; i < all; i++) {
					kind = kinds[i];
					results[i][round] = measure(options.threads[t]);
				}
			for (unsigned int i = 0; i < all; i++)
				printf("{\"kind\": \"%s\", \"threads\": %u, \"writes_percent\": "
				       "%u, "
				       "\"metric\": \"locks_per_second\", \"value\": %.0f}\n",
				       kinds[i]->name, options.threads[t], share,
				       median(results[i], options.rounds));
			fflush(stdout);
		}
	return EXIT_SUCCESS;
}
