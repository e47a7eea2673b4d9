/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * appliance - a fridge: an ordinary pthread program that knows nothing of TEK.
 *
 * It answers scripted touch events (event_path.h) while light sensor threads
 * (sensors.h) and CPU-bound threads in the paper's four groups (hogs.h) run, and
 * measures each answer, the context switches of each thread, the longest stall of
 * each thread that is not on the path of an event, and at last the time of
 * one switch (switch_cost.h).  It goes through the stages of stage.h.
 */
#include "clock.h"
#include "event_path.h"
#include "hogs.h"
#include "options.h"
#include "report.h"
#include "sensors.h"
#include "stage.h"
#include "switch_cost.h"
#include "threads.h"

#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The CPU-bound threads run this long before the first event: load balancing settles. */
#define WARM_UP_NS (300 * NS_PER_MS)

static void wait_for_go(void)
{
	char line[16];
	if (!fgets(line, sizeof(line), stdin) || strcmp(line, "go\n"))
		errx(EXIT_FAILURE, "--wait: expected the line `go` on standard input");
}

static void read_during(void)
{
	for (unsigned i = 0; i < thread_count; i++)
		threads[i].during = thread_sched_read(threads[i].tid);
}

static void read_after(void)
{
	for (unsigned i = 0; i < thread_count; i++)
		threads[i].after = thread_sched_read(threads[i].tid);
}

static struct run_times run(const struct options *options)
{
	struct run_times times;
	uint64_t quarter_ns = options->observe_s * NS_PER_S / 4;

	stage_enter(STAGE_SENSE);
	times.begin_ns = clock_ns();
	sleep_until(times.begin_ns + quarter_ns);

	stage_enter(STAGE_LOAD);
	times.load_ns = clock_ns();
	sleep_until(times.load_ns + (options->observe_s ? 0 : WARM_UP_NS));

	threads_count_begin();
	stage_enter(STAGE_EVENTS);
	times.events_ns = clock_ns();
	event_path_wait();
	if (options->observe_s)
		sleep_until(times.load_ns + 2 * quarter_ns);
	read_during();
	threads_count_end();

	stage_enter(STAGE_RESTED);
	times.rested_ns = clock_ns();
	stage_wait_parked(hogs_count(options));
	sleep_until(times.rested_ns + quarter_ns);

	stage_enter(STAGE_QUIET);
	stage_wait_parked(SENSOR_THREADS);

	stage_enter(STAGE_LEAVE);
	stage_wait_parked(thread_count);
	read_after();
	return times;
}

int main(int argc, char **argv)
{
	struct options options = options_parse(argc, argv);

	/* A program that can fill every CPU must end by itself. */
	alarm(options.limit_s);
	if (!options.iterations_per_ms)
		options.iterations_per_ms = calibrate();
	if (options.calibrate) {
		printf("{\"iterations_per_ms\":%" PRIu64 "}\n", options.iterations_per_ms);
		return EXIT_SUCCESS;
	}

	switch_cost_init(options.no_switch_cost);
	event_path_add(&options);
	sensors_add(&options);
	hogs_add(&options);
	threads_start();
	report_ready();
	if (options.wait)
		wait_for_go();

	struct run_times times = run(&options);
	report_result(&options, &times);
	stage_enter(STAGE_EXIT);
	threads_join();
	return EXIT_SUCCESS;
}
