/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Light periodic threads: door, gas, and the two of tek-2020's Fig. 2, temp, which
 * probes the temperature, and display, which shows it.
 */
#ifndef APPLIANCE_SENSORS_H
#define APPLIANCE_SENSORS_H

#include "options.h"

#include <stddef.h>
#include <stdint.h>

struct delay {
	uint64_t at_ns;    /* CLOCK_MONOTONIC when the reading was due */
	uint64_t delay_ns; /* until it was probed (temp) or shown (display) */
};

struct delay_series {
	struct delay *delays;
	size_t count, room;
};

extern struct delay_series temp_delays, display_delays;

/* Add the threads. Call before threads_start(). */
void sensors_add(const struct options *options);

/* How many there are. */
#define SENSOR_THREADS 4

#endif
