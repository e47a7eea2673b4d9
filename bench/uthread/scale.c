/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * scale - how much more gets done with more workers, when all that is done is scheduling.  Built
 * once for each library (on/on.h).
 *
 * Usage: PROGRAM --pairs N --times M --work yield|hand-over.  Of N pairs of threads each thread
 * does M times
 *
 *   yield      gives way.  The two of a pair are N threads apart: where threads are dealt to N
 *              workers in turn, they have one of their own, and nothing is shared but what the
 *              scheduler shares.
 *   hand-over  lets the other of its pair go on, by a condition variable.  They follow each other:
 *              where threads are dealt in turn, on different workers, so that each wakes one on
 *              another worker's queue.
 *
 * Prints one line of JSON.
 */
#include "on/on.h"

#include "../response/clock.h"
#include "../response/number.h"

#include <err.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIMIT_S 120

struct pair {
	on_mutex mutex;
	on_cond cond;
	unsigned int iteration;
} __attribute__((aligned(128)));

struct player {
	struct pair *pair;
	unsigned int own;
};

static uint64_t pairs = 1, times = 100000;
static bool hands_over;
static on_mutex mutex;
static on_cond all_wait, go_on;
static uint64_t waiting;
static bool begun;

static void wait_for_all(void)
{
	on_mutex_lock(&mutex);
	if (++waiting == 2 * pairs)
		on_cond_signal(&all_wait);
	while (!begun)
		on_cond_wait(&go_on, &mutex);
	on_mutex_unlock(&mutex);
}

static void hand_over(struct pair *pair, unsigned int own)
{
	on_mutex_lock(&pair->mutex);
	for (uint64_t i = 0; i < times; i++) {
		while (pair->iteration != own)
			on_cond_wait(&pair->cond, &pair->mutex);
		pair->iteration = !own;
		on_cond_signal(&pair->cond);
	}
	on_mutex_unlock(&pair->mutex);
}

static void *play(void *argument)
{
	struct player *player = argument;

	wait_for_all();
	if (hands_over) {
		hand_over(player->pair, player->own);
	} else {
		for (uint64_t i = 0; i < times; i++)
			on_yield();
	}
	return NULL;
}

static void read_arguments(int argc, char **argv)
{
	static const struct option known[] = {
		{"pairs", required_argument, NULL, 'p'},
		{"times", required_argument, NULL, 't'},
		{"work", required_argument, NULL, 'w'},
		{0},
	};
	int found;

	while ((found = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (found == 'p')
			pairs = number("pairs", optarg, 1, 1000);
		else if (found == 't')
			times = number("times", optarg, 1, 1000000000);
		else if (found == 'w' && strcmp(optarg, "hand-over") == 0)
			hands_over = true;
		else if (found != 'w' || strcmp(optarg, "yield") != 0)
			errx(2, "usage: %s --pairs N --times M --work yield|hand-over", argv[0]);
	}
}

int main(int argc, char **argv)
{
	read_arguments(argc, argv);
	alarm(LIMIT_S); /* it must end by itself, even if no process waits for it */
	on_start();
	on_mutex_init(&mutex);
	on_cond_init(&all_wait);
	on_cond_init(&go_on);
	struct pair *all = aligned_alloc(128, pairs * sizeof(*all));
	struct player *players = calloc(2 * pairs, sizeof(*players));
	on_thread *threads = calloc(2 * pairs, sizeof(*threads));
	if (!all || !players || !threads)
		err(EXIT_FAILURE, "no memory");
	for (uint64_t i = 0; i < pairs; i++) {
		on_mutex_init(&all[i].mutex);
		on_cond_init(&all[i].cond);
		all[i].iteration = 0;
	}
	for (uint64_t i = 0; i < 2 * pairs; i++) {
		players[i] = (struct player){&all[i / 2], i % 2};
		if (on_create(&threads[i], play, &players[i]))
			errx(EXIT_FAILURE, "cannot create a thread");
	}
	on_mutex_lock(&mutex);
	while (waiting < 2 * pairs)
		on_cond_wait(&all_wait, &mutex);
	uint64_t begin = clock_ns();
	begun = true;
	on_cond_broadcast(&go_on);
	on_mutex_unlock(&mutex);
	for (uint64_t i = 0; i < 2 * pairs; i++)
		on_join(&threads[i]);
	uint64_t ns = clock_ns() - begin;
	free(threads);
	free(players);
	free(all);
	printf("{\"on\":\"%s\",\"times\":%lu,\"ns\":%lu}\n", ON_NAME,
	       (unsigned long)(2 * pairs * times), (unsigned long)ns);
	return EXIT_SUCCESS;
}
