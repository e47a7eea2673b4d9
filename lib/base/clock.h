/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Times as ns, and the CPU-time clocks of threads. */
#ifndef TEK_BASE_CLOCK_H
#define TEK_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define TEK_NS_PER_SEC UINT64_C(1000000000)

/* The time of a clock in ns. The clock must exist. */
static inline uint64_t tek__now(clockid_t clock)
{
	struct timespec ts;
	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * TEK_NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

/*
 * When work is done again that the thread began at this CPU time of its own: at `due_ns`
 * (CLOCK_MONOTONIC), but not before a rest of eight times the CPU time that it used.
 */
static inline uint64_t tek__due_after_rest(uint64_t began_cpu_ns, uint64_t due_ns)
{
	const uint64_t used_ns = tek__now(CLOCK_THREAD_CPUTIME_ID) - began_cpu_ns;
	const uint64_t rested_ns = tek__now(CLOCK_MONOTONIC) + 8 * used_ns;
	return due_ns > rested_ns ? due_ns : rested_ns;
}

/* A time before the epoch is 0, one beyond 584 years is UINT64_MAX. */
static inline uint64_t tek__ns_of(const struct timespec *time)
{
	uint64_t seconds = (uint64_t)time->tv_sec;
	if (time->tv_sec < 0)
		return 0;
	if (seconds >= UINT64_MAX / TEK_NS_PER_SEC)
		return UINT64_MAX;
	return seconds * TEK_NS_PER_SEC + (uint64_t)time->tv_nsec;
}

static inline struct timespec tek__timespec_of(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / TEK_NS_PER_SEC),
				 .tv_nsec = (long)(ns % TEK_NS_PER_SEC)};
}

/*
 * The CPU-time clock of any thread of this process, by tid.  The kernel's clock
 * ids (include/linux/posix-timers_types.h) hold the complement of the tid above
 * three bits: 4 = of one thread, 2 = scheduler time.  pthread_getcpuclockid()
 * returns the same, but only for a pthread_t.
 */
static inline clockid_t tek__thread_cpu_clock(pid_t tid)
{
	return (clockid_t)(~(unsigned int)tid << 3 | 6u);
}

static inline pid_t tek__tid_of_cpu_clock(clockid_t clock)
{
	return ~(clock >> 3);
}

/* CPU time of a thread of this process in ns; false if there is no such thread now. */
static inline bool tek__thread_cpu_time(pid_t tid, uint64_t *ns)
{
	struct timespec ts;
	if (clock_gettime(tek__thread_cpu_clock(tid), &ts))
		return false;
	*ns = (uint64_t)ts.tv_sec * TEK_NS_PER_SEC + (uint64_t)ts.tv_nsec;
	return true;
}

#endif
