/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/kernel_wait.h"

#include "base/channel.h"
#include "base/clock.h"
#include "base/line.h"
#include "uthread/engine.h"
#include "uthread/interrupted.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The interval of ticks, and the time after the last such wait. */
#define INTERVAL_NS 200000
#define AFTER_NS 100000000

/* After this number of waits for a futex their cost is reported once. */
#define MANY 100

static _Atomic uint64_t last; /* when one was found, in ns; 0: never */
static atomic_uint futexes;

bool tek_ut__kernel_wait_was_interrupted(const ucontext_t *context)
{
	return tek_ut__is_call(tek_ut__interrupted_at(context));
}

static void report(void)
{
	struct tek_line line = {0};

	tek__line_add(&line, "tek: ");
	tek__line_add(&line, tek__channel_program());
	tek__line_add(&line, "[");
	tek__line_add_number(&line, (uint64_t)getpid());
	tek__line_add(&line,
		      "]: its threads wait by futex(2) past TEK, as those of OpenMP do. Each "
		      "such wait is noticed up to 0.2 ms late, and takes a kernel thread. "
		      "Without --model it costs nothing.\n");
	tek__channel_report(line.text, line.length);
}

void tek_ut__kernel_wait_found(const ucontext_t *context)
{
	atomic_store_explicit(&last, tek__now(CLOCK_MONOTONIC), memory_order_relaxed);
	if (tek_ut__interrupted_number(context) == SYS_futex &&
	    atomic_fetch_add_explicit(&futexes, 1, memory_order_relaxed) + 1 == MANY)
		report();
}

uint64_t tek_ut__kernel_wait_interval(void)
{
	const uint64_t quantum = tek_ut__engine.quantum_ns;
	const uint64_t found = atomic_load_explicit(&last, memory_order_relaxed);

	if (!found || quantum <= INTERVAL_NS || tek__now(CLOCK_MONOTONIC) - found > AFTER_NS)
		return quantum;
	return INTERVAL_NS;
}

unsigned int tek_ut__kernel_wait_polls(uint64_t interval)
{
	return interval ? (unsigned int)(tek_ut__engine.quantum_ns / interval) : 1;
}

void tek_ut__kernel_wait_after_fork(void)
{
	atomic_store(&last, 0);
}
