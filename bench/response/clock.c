/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "clock.h"

#include <errno.h>
#include <time.h>

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t clock_ns(void)
{
	return now_ns(CLOCK_MONOTONIC);
}

uint64_t thread_cpu_ns(void)
{
	return now_ns(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t process_cpu_ns(void)
{
	return now_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void sleep_until(uint64_t due_ns)
{
	struct timespec due = {
		.tv_sec = (time_t)(due_ns / NS_PER_S),
		.tv_nsec = (long)(due_ns % NS_PER_S),
	};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
		;
}

void work(uint64_t iterations)
{
	uint64_t x = iterations | 1;
	for (uint64_t i = 0; i < iterations; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	/* The result is used as far as the compiler knows, so the loop stays. */
	__asm__ volatile("" : : "r"(x));
}

static uint64_t timed(uint64_t iterations)
{
	uint64_t begin = clock_ns();
	work(iterations);
	return clock_ns() - begin;
}

uint64_t calibrate(void)
{
	uint64_t iterations = 1024;
	while (timed(iterations) < NS_PER_MS)
		iterations *= 2;

	/* The fastest of many is the one that was not preempted. */
	uint64_t fastest = UINT64_MAX;
	for (int i = 0; i < 200; i++) {
		uint64_t ns = timed(iterations);
		if (ns < fastest)
			fastest = ns;
	}
	return iterations * NS_PER_MS / fastest;
}
