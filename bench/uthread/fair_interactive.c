/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "fair.h"

#include "../response/clock.h"

#include <err.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define SAMPLES_MAX 10000
#define ROUND_US 200 /* of work, each time that it runs */

static atomic_bool over;
static double late_us[SAMPLES_MAX];
static unsigned int samples;

static void *compute(void *unused)
{
	while (!atomic_load_explicit(&over, memory_order_relaxed))
		work(work_per_ms / 200);
	return unused;
}

/* Sleeps for 3 to 13 ms, since an even period could keep step with the quanta. */
static void *interact(void *argument)
{
	const struct fair_options *options = argument;
	unsigned int seed = (unsigned int)options->seed;
	uint64_t end = clock_ns() + options->run_ns;

	while (clock_ns() < end && samples < SAMPLES_MAX) {
		uint64_t due = clock_ns() + 3 * NS_PER_MS +
			       (uint64_t)rand_r(&seed) % (10 * NS_PER_MS);
		sleep_until(due);
		late_us[samples++] = (double)(clock_ns() - due) / NS_PER_US;
		work(work_per_ms * ROUND_US / 1000);
	}
	return NULL;
}

void fair_interactive(const struct fair_options *options)
{
	pthread_t *hogs = calloc(options->threads, sizeof(*hogs));
	struct fair_options own = *options;

	if (!hogs)
		err(EXIT_FAILURE, "no memory");
	for (unsigned int i = 0; i < options->threads; i++)
		hogs[i] = start_thread(compute, NULL);
	pthread_t interactive = start_thread(interact, &own);
	must(pthread_join(interactive, NULL), "cannot join a thread");
	over = true;
	for (unsigned int i = 0; i < options->threads; i++)
		must(pthread_join(hogs[i], NULL), "cannot join a thread");
	free(hogs);
	printf("\"late_us\":[");
	for (unsigned int i = 0; i < samples; i++)
		printf("%s%.1f", i ? "," : "", late_us[i]);
	printf("]");
}
