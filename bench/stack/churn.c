/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "churn.h"

#include "maps.h"

#include "../response/clock.h"

#include <inttypes.h>
#include <stdio.h>

#define HOURS 24 /* a day */

struct totals {
	unsigned int threads;
	uint64_t allocated, used;
};

static void add(struct totals *totals, uint64_t allocated, uint64_t used)
{
	totals->threads++;
	totals->allocated += allocated;
	totals->used += used;
}

static uint64_t mapped(const struct worker *worker)
{
	struct range block = {.low = worker->low, .end = worker->end};
	maps_measure(&block, 1);
	return block.mapped;
}

/*
 * Whether thread i lives in this hour.  Every third one stays for good; the others live for 5 to
 * 40 hours and are away for 1 to 12, again and again.
 */
static bool lives(unsigned int i, unsigned int hour, unsigned int hours)
{
	unsigned int first = i * (hours - HOURS) / WORKERS; /* all have come a day before the end */
	if (hour < first)
		return false;
	unsigned int stay = 5 + i * 7 % 36, away = 1 + i * 5 % 12;
	return i % 3 == 0 || (hour - first) % (stay + away) < stay;
}

static void print_totals(const char *name, const struct totals *totals)
{
	printf(",\"%s\":{\"threads\":%u,\"allocated\":%" PRIu64 ",\"used\":%" PRIu64 "}", name,
	       totals->threads, totals->allocated, totals->used);
}

static void print_day(unsigned int day, const struct worker *workers, const struct totals *so_far)
{
	struct totals now = {0};

	for (unsigned int i = 0; i < WORKERS; i++)
		if (workers[i].alive)
			add(&now, mapped(&workers[i]), workers[i].used_bytes);
	printf("%s{\"day\":%u", day > 1 ? "," : "", day);
	print_totals("alive", &now);
	print_totals("created", so_far);
	printf(",\"vm\":%" PRIu64 "}", status_bytes("VmSize"));
}

void churn(struct worker *workers, unsigned int days, unsigned int hour_us)
{
	struct totals created = {0};
	unsigned int hours = days * HOURS;
	uint64_t begin = clock_ns();

	printf("[");
	for (unsigned int hour = 0; hour < hours; hour++) {
		for (unsigned int i = 0; i < WORKERS; i++) {
			bool now = lives(i, hour, hours);
			if (workers[i].alive && !now)
				worker_end(&workers[i]);
			if (workers[i].alive || !now)
				continue;
			worker_start(&workers[i]);
			add(&created, mapped(&workers[i]), workers[i].used_bytes);
		}
		sleep_until(begin + (uint64_t)(hour + 1) * hour_us * NS_PER_US);
		if (hour % HOURS == HOURS - 1)
			print_day(hour / HOURS + 1, workers, &created);
	}
	printf("]");
	for (unsigned int i = 0; i < WORKERS; i++)
		if (workers[i].alive)
			worker_end(&workers[i]);
}
