/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The threads of `load`: load_start(), load_go(), load_stop() unless a time was given, load_join().
 */
#ifndef LOAD_THREADS_H
#define LOAD_THREADS_H

#include <stdbool.h>
#include <stdint.h>

struct load {
	unsigned hogs;              /* CPU-bound threads */
	unsigned idle;              /* threads that are idle most of the time */
	bool pin;                   /* the CPU-bound threads stay on one CPU each, in turn */
	uint64_t iterations_per_ms; /* of work() */
};

/* The measurements of a CPU-bound thread. */
struct hog {
	int cpu;           /* on which it stayed; -1: on any */
	uint64_t cpu_ns;   /* time on a CPU between from_ns and to_ns */
	uint64_t stall_ns; /* longest time there between two iterations of about 50 us */
};

extern struct hog *hogs; /* load.hogs of them */

/* Create all threads, which wait. Exits with a message on failure. */
void load_start(const struct load *load);

/* Let them run until to_ns, CLOCK_MONOTONIC; what they have is counted from from_ns. */
void load_go(uint64_t from_ns, uint64_t to_ns);

/* End them now. */
void load_stop(void);

/* Wait for the end of the CPU-bound ones. */
void load_join(void);

/* How late one of the idle threads was done at the worst, in ns. */
uint64_t idle_late_ns(void);

#endif
