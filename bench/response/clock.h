/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Time and fixed amounts of CPU work. */
#ifndef APPLIANCE_CLOCK_H
#define APPLIANCE_CLOCK_H

#include <stdint.h>

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull

/* CLOCK_MONOTONIC, in ns. */
uint64_t clock_ns(void);

/* CPU time of the calling thread, in ns. */
uint64_t thread_cpu_ns(void);

/* The same of all threads of this process, also of those that ended. */
uint64_t process_cpu_ns(void);

/* Sleep until CLOCK_MONOTONIC is due_ns, through signals. */
void sleep_until(uint64_t due_ns);

/*
 * Use the CPU for a fixed number of iterations.  The work is counted, not timed, so
 * that every variant of a comparison does the same, preempted or not.
 */
void work(uint64_t iterations);

/* How many iterations of work() this CPU does in 1 ms when no other thread disturbs it. */
uint64_t calibrate(void);

#endif
