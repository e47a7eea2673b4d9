/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/tick_cost.h"

#include "base/channel.h"
#include "base/clock.h"
#include "base/line.h"
#include "uthread/engine.h"
#include "uthread/tick.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of so many ticks the first ones are measured. */
#define TICKS_A_MEASUREMENT 256u
#define SAMPLES 5u

/* And one of so many while the quantum is lengthened. */
#define TICKS_A_SAMPLE 4u

/*
 * The interval, in costs. A probe switches no threads: with that, a tick takes up to about twice
 * as long, which is a quarter of the interval.
 */
#define COSTS_AN_INTERVAL 8

bool tek_ut__tick_cost_probe(struct tek_tick_cost *cost)
{
#if defined(TEK_FIBERS_TSAN)
	(void)cost;
	return false; /* it delivers signals when it likes */
#else
	/* A lengthened quantum is to be the right one again soon. */
	const bool is_long = cost->interval_ns > tek_ut__engine.quantum_ns;
	if (cost->ticks++ % (is_long ? TICKS_A_SAMPLE : TICKS_A_MEASUREMENT) >=
	    (is_long ? 1 : SAMPLES))
		return false;
	cost->sent_at = tek__now(CLOCK_MONOTONIC);
	return tek_ut__tick_send_probe((pid_t)syscall(SYS_gettid));
#endif
}

static void report_once(uint64_t cost_ns)
{
	static atomic_bool reported;
	struct tek_line line = {0};

	if (atomic_exchange(&reported, true))
		return;
	tek__line_add(&line, "tek: ");
	tek__line_add(&line, tek__channel_program());
	tek__line_add(&line, "[");
	tek__line_add_number(&line, (uint64_t)getpid());
	tek__line_add(&line, "]: to interrupt a thread takes ");
	tek__line_add_number(&line, cost_ns / 1000);
	tek__line_add(&line, " us here, too long for a quantum of ");
	tek__line_add_number(&line, tek_ut__engine.quantum_ns / 1000);
	tek__line_add(&line, " us: it is lengthened to ");
	tek__line_add_number(&line, cost_ns * COSTS_AN_INTERVAL / 1000);
	tek__line_add(&line, " us, and changes with that time.\n");
	tek__channel_report(line.text, line.length);
}

uint64_t tek_ut__tick_cost_interval(struct tek_tick_cost *cost)
{
	const uint64_t ns = tek__now(CLOCK_MONOTONIC) - cost->sent_at;

	/*
	 * The CPU may be taken away during a probe, which makes it longer: the least counts, and a
	 * lower one at once.
	 */
	if (cost->samples == 0 || ns < cost->least_ns)
		cost->least_ns = ns;
	if (++cost->samples < SAMPLES && ns * COSTS_AN_INTERVAL >= cost->interval_ns)
		return 0;
	cost->samples = 0;
	cost->interval_ns = cost->least_ns * COSTS_AN_INTERVAL;
	if (cost->interval_ns > tek_ut__engine.quantum_ns)
		report_once(cost->least_ns);
	return cost->interval_ns;
}
