/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The output of the appliance: lines of JSON. */
#ifndef APPLIANCE_REPORT_H
#define APPLIANCE_REPORT_H

#include "options.h"

/* When the measured part of the run was, CLOCK_MONOTONIC in ns. */
struct run_times {
	uint64_t begin_ns;  /* the sensors begin */
	uint64_t load_ns;   /* the CPU-bound threads begin */
	uint64_t events_ns; /* the events begin */
	uint64_t rested_ns; /* the events have ended, the CPU-bound threads stop */
};

/* {"ready":[{"name":...,"tid":...,"group":...,"kind":...},...]} */
void report_ready(void);

/* Everything that was measured. */
void report_result(const struct options *options, const struct run_times *times);

#endif
