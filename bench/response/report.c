/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names are constants of this program, so no string needs escaping. */
#include "report.h"

#include "event_path.h"
#include "sensors.h"
#include "switch_cost.h"
#include "threads.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const kind_names[] = {
	[KIND_EVENT] = "event",
	[KIND_SENSOR] = "sensor",
	[KIND_HOG] = "hog",
};

static const char *comma(size_t i)
{
	return i ? "," : "";
}

static void print_identity(const struct thread *thread)
{
	printf("\"name\":\"%s\",\"tid\":%d,\"group\":\"%s\",\"kind\":\"%s\"", thread->name,
	       (int)thread->tid, thread->group, kind_names[thread->kind]);
}

void report_ready(void)
{
	printf("{\"ready\":[");
	for (unsigned i = 0; i < thread_count; i++) {
		printf("%s{", comma(i));
		print_identity(&threads[i]);
		printf("}");
	}
	printf("]}\n");
	fflush(stdout);
}

static void print_sched(const char *key, const struct thread_sched *sched)
{
	printf(",\"%s\":{\"policy\":%" PRIu32 ",\"priority\":%" PRIu32 ",\"nice\":%" PRId32
	       ",\"flags\":%" PRIu64 "}",
	       key, sched->policy, sched->priority, sched->nice, sched->flags);
}

static void print_thread(const struct thread *thread)
{
	print_identity(thread);
	printf(",\"voluntary\":%" PRIu64 ",\"involuntary\":%" PRIu64 ",\"cpu_ns\":%" PRIu64,
	       thread->counts.voluntary, thread->counts.involuntary, thread->counts.cpu_ns);
	if (thread->counts.has_run_delay)
		printf(",\"run_delay_ns\":%" PRIu64, thread->counts.run_delay_ns);
	if (thread->kind != KIND_EVENT)
		printf(",\"stall_ns\":%" PRIu64, thread->stall_ns);
	if (thread->kind == KIND_HOG)
		printf(",\"turns\":%" PRIu64, thread->iterations);
	print_sched("before", &thread->before);
	print_sched("during", &thread->during);
	print_sched("after", &thread->after);
}

static void print_delays(const char *name, const struct delay_series *series, uint64_t begin_ns)
{
	printf("\"%s\":[", name);
	for (size_t i = 0; i < series->count; i++)
		printf("%s[%" PRIu64 ",%" PRIu64 "]", comma(i), series->delays[i].at_ns - begin_ns,
		       series->delays[i].delay_ns);
	printf("]");
}

void report_result(const struct options *options, const struct run_times *times)
{
	printf("{\"events_phase_ns\":%" PRIu64, times->rested_ns - times->events_ns);
	printf(",\"load_from_ns\":%" PRIu64 ",\"load_to_ns\":%" PRIu64,
	       times->load_ns - times->begin_ns, times->rested_ns - times->begin_ns);

	printf(",\"responses_ns\":[");
	for (unsigned i = 0; i < options->events && !options->observe_s; i++)
		printf("%s%" PRIu64, comma(i), responses_ns[i]);

	printf("],\"threads\":[");
	for (unsigned i = 0; i < thread_count; i++) {
		printf("%s{", comma(i));
		print_thread(&threads[i]);
		printf("}");
	}

	printf("],\"switch_ns\":{");
	for (unsigned i = 0; i < SWITCH_GAMES && !options->no_switch_cost; i++)
		printf("%s\"%s\":%.1f", comma(i), threads[i].name, switch_cost_ns[i]);

	printf("},\"delays_ns\":{");
	print_delays("temp", &temp_delays, times->begin_ns);
	printf(",");
	print_delays("display", &display_delays, times->begin_ns);
	printf("}}\n");
	fflush(stdout);
}
