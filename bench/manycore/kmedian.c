/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "kmedian.h"

#include "barrier.h"
#include "program.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CANDIDATES_BY_CENTRE 3 /* times k log k candidates are examined in a round */
#define ENOUGH 0.01            /* a round that gains less is the last */
#define MOST_COSTS 12          /* of a centre, that are tried */
#define NOBODY UINT32_MAX

/*
 * All threads do the same steps and come to the same decisions, from what they find after a
 * barrier.  Between two barriers each thread writes its share of the points, its row of `extra` and
 * its part of `saved`; each centre's `closes` is written by one thread, the rest by thread 0.
 */
static struct {
	const struct point *points;
	uint32_t count;
	unsigned int least, most;
	struct assignment assignment;
	struct barrier barrier;

	struct random random;
	int64_t centre_cost;
	uint32_t chosen; /* the point to be examined, or NOBODY */
	uint32_t *order;

	unsigned int centres;
	uint32_t *centre; /* the points that are */
	uint32_t *slot;   /* of each such point where it stands there */
	bool *closes;     /* of each slot */

	int64_t *extra; /* of each thread and slot: what its points lose if that centre closes */
	int64_t *saved; /* of each thread */
	uint64_t barriers;
} work;

int64_t place_distance(const float *one, const float *other)
{
	float sum = 0;

	for (unsigned int i = 0; i < DIMENSIONS; i++)
		sum += (one[i] - other[i]) * (one[i] - other[i]);
	return (int64_t)(sum * 0x1p20f);
}

static int64_t distance(uint32_t i, uint32_t centre)
{
	const struct point *point = &work.points[i];
	return place_distance(point->at, work.points[centre].at) * point->weight;
}

static void wait_for_all(unsigned int number)
{
	barrier_wait(&work.barrier);
	if (number == 0)
		work.barriers++;
}

struct share {
	unsigned int number;
	uint64_t begin, end;
};

/* The sum of what each thread has found; the caller comes from a barrier. */
static int64_t sum_saved(void)
{
	int64_t sum = 0;

	for (unsigned int i = 0; i < program.threads; i++)
		sum += work.saved[i];
	return sum;
}

static void open_centre(uint32_t point)
{
	work.slot[point] = work.centres;
	work.centre[work.centres++] = point;
}

/*
 * From the next point on that thread 0 has not looked at: each opens the more likely the farther it
 * is off.
 */
static uint32_t choose_far_one(uint32_t *next)
{
	while (*next < work.count) {
		uint32_t point = work.order[(*next)++];
		double chance = (double)work.assignment.cost[point] / (double)work.centre_cost;
		if (random_unit(&work.random) < chance)
			return point;
	}
	return NOBODY;
}

/* A first solution. */
static void open_first(const struct share *share)
{
	uint32_t next = 1;

	if (share->number == 0) {
		work.centres = 0;
		open_centre(work.order[0]);
	}
	for (uint64_t i = share->begin; i < share->end; i++) {
		work.assignment.centre[i] = work.order[0];
		work.assignment.cost[i] = distance((uint32_t)i, work.order[0]);
	}
	for (;;) {
		wait_for_all(share->number);
		if (share->number == 0) {
			work.chosen = choose_far_one(&next);
			if (work.chosen != NOBODY)
				open_centre(work.chosen);
		}
		wait_for_all(share->number);
		uint32_t chosen = work.chosen;
		if (chosen == NOBODY)
			return;
		for (uint64_t i = share->begin; i < share->end; i++) {
			int64_t cost = distance((uint32_t)i, chosen);
			if (cost < work.assignment.cost[i]) {
				work.assignment.cost[i] = cost;
				work.assignment.centre[i] = chosen;
			}
		}
	}
}

/*
 * What each thread's points would save if x were a centre, and lose if those that they leave were
 * closed.
 */
static int64_t examine_one(const struct share *share, uint32_t x)
{
	int64_t *extra = &work.extra[(uint64_t)share->number * work.count];
	int64_t saved = 0;

	memset(extra, 0, work.centres * sizeof(*extra));
	for (uint64_t i = share->begin; i < share->end; i++) {
		int64_t difference = work.assignment.cost[i] - distance((uint32_t)i, x);
		if (difference > 0)
			saved += difference;
		else
			extra[work.slot[work.assignment.centre[i]]] -= difference;
	}
	return saved;
}

/* Which of the centres close that are this thread's to decide. What that saves. */
static int64_t close_some(const struct share *share)
{
	uint64_t begin, end;
	int64_t saved = 0;

	program_share(work.centres, program.threads, share->number, &begin, &end);
	for (uint64_t slot = begin; slot < end; slot++) {
		int64_t extra = 0;
		for (uint64_t i = 0; i < program.threads; i++)
			extra += work.extra[i * work.count + slot];
		work.closes[slot] = extra < work.centre_cost;
		if (work.closes[slot])
			saved += work.centre_cost - extra;
	}
	return saved;
}

/* Those that close are taken out of the list, and x comes in. */
static void replace_centres(uint32_t x)
{
	unsigned int retained = 0;

	for (unsigned int slot = 0; slot < work.centres; slot++) {
		if (work.closes[slot])
			continue;
		work.centre[retained] = work.centre[slot];
		work.slot[work.centre[retained]] = retained;
		retained++;
	}
	work.centres = retained;
	open_centre(x);
}

static void move_to(const struct share *share, uint32_t x)
{
	for (uint64_t i = share->begin; i < share->end; i++) {
		int64_t cost = distance((uint32_t)i, x);
		if (cost < work.assignment.cost[i] ||
		    work.closes[work.slot[work.assignment.centre[i]]]) {
			work.assignment.cost[i] = cost;
			work.assignment.centre[i] = x;
		}
	}
}

/* Makes x a centre if that gains something; returns what it gains. */
static int64_t gain(const struct share *share, uint32_t x)
{
	int64_t saved = examine_one(share, x), gained;

	wait_for_all(share->number);
	work.saved[share->number] = saved + close_some(share);
	wait_for_all(share->number);
	gained = sum_saved() - work.centre_cost;
	/*
	 * One that is a centre has nothing to gain but closing other centres, and would stand in
	 * the list twice.
	 */
	bool is_centre = work.assignment.centre[x] == x;
	if (gained <= 0 || is_centre)
		return 0;
	wait_for_all(share->number);
	move_to(share, x);
	wait_for_all(share->number);
	if (share->number == 0)
		replace_centres(x);
	wait_for_all(share->number);
	return gained;
}

static void shuffle(void)
{
	for (uint32_t i = 0; i + 1 < work.count; i++) {
		uint32_t other = i + (uint32_t)random_below(&work.random, work.count - i);
		uint32_t point = work.order[i];
		work.order[i] = work.order[other];
		work.order[other] = point;
	}
}

static int64_t total_cost(const struct share *share)
{
	int64_t sum = 0;

	for (uint64_t i = share->begin; i < share->end; i++)
		sum += work.assignment.cost[i];
	wait_for_all(share->number); /* another thread may still read the earlier values */
	work.saved[share->number] = sum;
	wait_for_all(share->number);
	sum = sum_saved();
	wait_for_all(share->number);
	return sum;
}

/* Looks at some points after the other, as long as that gains something. */
static void improve(const struct share *share)
{
	double k = work.least;
	uint32_t candidates = (uint32_t)(CANDIDATES_BY_CENTRE * k * log(k + 1)) + 1;
	int64_t cost, gained;

	if (candidates > work.count)
		candidates = work.count;
	do {
		cost = total_cost(share) + (int64_t)work.centres * work.centre_cost;
		if (share->number == 0)
			shuffle();
		wait_for_all(share->number);
		gained = 0;
		for (uint32_t i = 0; i < candidates; i++)
			gained += gain(share, work.order[i]);
	} while ((double)gained > ENOUGH * (double)cost);
}

/* Halves the range of what a centre may cost until there are as many as are wanted. */
static void search(unsigned int number)
{
	struct share share = {.number = number};
	int64_t low = 0, high;

	program_share(work.count, program.threads, number, &share.begin, &share.end);
	for (uint64_t i = share.begin; i < share.end; i++)
		work.assignment.cost[i] = distance((uint32_t)i, 0);
	high = total_cost(&share) + 2;
	for (unsigned int tried = 0; tried < MOST_COSTS; tried++) {
		if (number == 0) {
			work.centre_cost = (low + high) / 2;
			shuffle();
		}
		wait_for_all(number);
		open_first(&share);
		improve(&share);
		wait_for_all(number);
		unsigned int centres = work.centres;
		wait_for_all(number); /* thread 0 changes it next */
		if (centres > work.most)
			low = (low + high) / 2;
		else if (centres < work.least)
			high = (low + high) / 2;
		else
			return;
	}
}

unsigned int kmedian(const struct point *points, uint32_t count, unsigned int least,
		     unsigned int most, const struct assignment *assignment, uint64_t *barriers)
{
	memset(&work, 0, sizeof(work));
	work.points = points;
	work.count = count;
	work.least = least < count ? least : count;
	work.most = most;
	work.assignment = *assignment;
	work.random.state = count;
	work.order = program_memory(calloc(count, sizeof(*work.order)));
	work.centre = program_memory(calloc(count, sizeof(*work.centre)));
	work.slot = program_memory(calloc(count, sizeof(*work.slot)));
	work.closes = program_memory(calloc(count, sizeof(*work.closes)));
	work.extra = program_memory(calloc((size_t)program.threads * count, sizeof(int64_t)));
	work.saved = program_memory(calloc(program.threads, sizeof(*work.saved)));
	for (uint32_t i = 0; i < count; i++)
		work.order[i] = i;
	barrier_init(&work.barrier, program.threads);
	program_run(program.threads, search);
	barrier_destroy(&work.barrier);
	free(work.order);
	free(work.centre);
	free(work.slot);
	free(work.closes);
	free(work.extra);
	free(work.saved);
	*barriers += work.barriers;
	return work.centres;
}
