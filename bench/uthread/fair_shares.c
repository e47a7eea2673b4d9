/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "fair.h"

#include "../response/clock.h"

#include <err.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct hog {
	uint64_t units; /* of work that it did */
	pthread_t thread;
} __attribute__((aligned(64)));

static atomic_bool begin, over;

/* Small units: what is begun when the time is over is nothing beside a quantum. */
static void *compute(void *argument)
{
	struct hog *self = argument;
	uint64_t unit = work_per_ms / 200;

	while (!atomic_load_explicit(&begin, memory_order_relaxed))
		;
	while (!atomic_load_explicit(&over, memory_order_relaxed)) {
		work(unit);
		self->units++;
	}
	return NULL;
}

void fair_shares(const struct fair_options *options)
{
	struct hog *hogs = aligned_alloc(sizeof(*hogs), options->threads * sizeof(*hogs));

	if (!hogs)
		err(EXIT_FAILURE, "no memory");
	for (unsigned int i = 0; i < options->threads; i++) {
		hogs[i].units = 0;
		hogs[i].thread = start_thread(compute, &hogs[i]);
	}
	begin = true;
	sleep_until(clock_ns() + options->run_ns);
	over = true;
	for (unsigned int i = 0; i < options->threads; i++)
		must(pthread_join(hogs[i].thread, NULL), "cannot join a thread");
	printf("\"units\":[");
	for (unsigned int i = 0; i < options->threads; i++)
		printf("%s%lu", i ? "," : "", (unsigned long)hogs[i].units);
	printf("]");
	free(hogs);
}
