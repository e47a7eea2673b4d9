/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "hogs.h"

#include "clock.h"
#include "stage.h"
#include "threads.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
	const char *name, *group;
} kinds[] = {
	{"media", "urgent"},
	{"network", "normal"},
	{"updater", "service"},
	{"indexer", "background"},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* An iteration is about 50 us long. */
static uint64_t iterations_a_round;

static void hog_run(struct thread *self)
{
	stage_wait(STAGE_LOAD);
	uint64_t last = clock_ns();
	for (enum stage stage = STAGE_LOAD; stage <= STAGE_EVENTS;) {
		work(iterations_a_round);
		/* Before the clock, so that a gap which outlasts the events counts. */
		stage = stage_now();
		uint64_t now = clock_ns();
		if (stage >= STAGE_EVENTS) {
			if (now - last > self->stall_ns)
				self->stall_ns = now - last;
			self->iterations++;
		}
		last = now;
	}
	stage_parked();
}

void hogs_add(const struct options *options)
{
	iterations_a_round = options->iterations_per_ms / 20;
	for (unsigned kind = 0; kind < KINDS; kind++) {
		for (unsigned i = 0; i < options->hogs; i++) {
			char *name;
			if (asprintf(&name, "%s%u", kinds[kind].name, i) < 0)
				err(EXIT_FAILURE, "cannot name a thread");
			thread_add(name, kinds[kind].group, KIND_HOG, hog_run);
		}
	}
}

unsigned hogs_count(const struct options *options)
{
	return (unsigned)KINDS * options->hogs;
}
