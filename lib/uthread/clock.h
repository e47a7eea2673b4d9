/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Times of CLOCK_MONOTONIC as ns. */
#ifndef TEK_UTHREAD_CLOCK_H
#define TEK_UTHREAD_CLOCK_H

#include <stdint.h>
#include <time.h>

#define TEK_NS_A_SECOND 1000000000ull

/* A time before the epoch is 0, one beyond 584 years is UINT64_MAX. */
static inline uint64_t tek_ut__ns_of(const struct timespec *time)
{
	uint64_t seconds = (uint64_t)time->tv_sec;
	if (time->tv_sec < 0)
		return 0;
	if (seconds >= UINT64_MAX / TEK_NS_A_SECOND)
		return UINT64_MAX;
	return seconds * TEK_NS_A_SECOND + (uint64_t)time->tv_nsec;
}

static inline struct timespec tek_ut__timespec_of(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / TEK_NS_A_SECOND),
				 .tv_nsec = (long)(ns % TEK_NS_A_SECOND)};
}

static inline uint64_t tek_ut__now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return tek_ut__ns_of(&now);
}

#endif
