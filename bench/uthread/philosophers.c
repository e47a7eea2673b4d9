/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * philosophers - dining philosophers, which take the fork with the lower number first (uthreads,
 * 5.5).
 *
 * Each thread is one of them; the size is the number of meals of all.  The result is that number,
 * or 0 if a fork was ever in two hands.
 */
#include "crew.h"

#include "../response/clock.h"

#include <err.h>
#include <stdatomic.h>
#include <stdlib.h>

#define ROUNDS 20 /* of work(): how long it takes to eat, and to think */

struct fork {
	pthread_mutex_t mutex;
	bool taken;
	uint64_t meals;
} __attribute__((aligned(64)));

static struct fork *forks;
static atomic_bool shared;

static void take(struct fork *fork)
{
	pthread_mutex_lock(&fork->mutex);
	if (fork->taken)
		shared = true;
	fork->taken = true;
}

static void put(struct fork *fork)
{
	fork->taken = false;
	fork->meals++;
	pthread_mutex_unlock(&fork->mutex);
}

static void dine(unsigned int number)
{
	struct crew_share share = crew_share(number);
	unsigned int next = (number + 1) % crew.threads;
	struct fork *first = &forks[number < next ? number : next];
	struct fork *second = &forks[number < next ? next : number];

	for (uint64_t i = share.begin; i < share.end; i++) {
		take(first);
		take(second);
		work(ROUNDS);
		put(second);
		put(first);
		work(ROUNDS);
	}
}

int main(int argc, char **argv)
{
	uint64_t meals = 0;

	crew_begin(argc, argv, 2, 1);
	forks = aligned_alloc(sizeof(*forks), crew.threads * sizeof(*forks));
	if (!forks)
		err(EXIT_FAILURE, "no memory");
	for (unsigned int i = 0; i < crew.threads; i++) {
		forks[i] = (struct fork){.taken = false};
		crew_must(pthread_mutex_init(&forks[i].mutex, NULL), "cannot make a mutex");
	}
	crew_run(dine);
	for (unsigned int i = 0; i < crew.threads; i++)
		meals += forks[i].meals;
	free(forks);
	return crew_end("philosophers", shared ? 0 : meals / 2, crew.size);
}
