/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The profiler's clock. If `tek profile` reports that the processor's counter runs evenly, and
 * alike on all processors, it is that counter, which takes half the time of clock_gettime(). Else
 * it is CLOCK_MONOTONIC.
 */
#ifndef TEK_PROFILE_CLOCK_H
#define TEK_PROFILE_CLOCK_H

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

extern bool tek_prof__counts __attribute__((visibility("hidden")));

/* Ticks of a millisecond. */
extern uint64_t tek_prof__rate __attribute__((visibility("hidden")));

static inline uint64_t tek_prof__monotonic_ns(void)
{
	return tek__now(CLOCK_MONOTONIC);
}

/*
 * Ticks now.  The counter may be read a few instructions early or late: what is measured takes more
 * than that, and a fence would double the price.
 */
static inline uint64_t tek_prof__ticks(void)
{
#if defined(__x86_64__)
	if (__builtin_expect(tek_prof__counts, 1))
		return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	if (__builtin_expect(tek_prof__counts, 1)) {
		uint64_t ticks;
		__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
		return ticks;
	}
#endif
	return tek_prof__monotonic_ns();
}

static inline uint64_t tek_prof__ticks_of_ns(uint64_t ns)
{
	return ns * tek_prof__rate / 1000000;
}

/*
 * ns that the calling thread ran on a CPU, keeping errno: it costs as much as a short system call.
 */
static inline uint64_t tek_prof__run_ns(void)
{
	struct timespec now = {0, 0};
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
