/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef APPLIANCE_OPTIONS_H
#define APPLIANCE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct options {
	unsigned events;            /* touch events to answer */
	unsigned hogs;              /* CPU-bound threads in each of the four groups */
	unsigned observe_s;         /* watch the sensors this long instead of answering events */
	unsigned limit_s;           /* SIGALRM ends the program after this long */
	uint64_t seed;              /* of the script of touch events */
	uint64_t iterations_per_ms; /* of work(); 0: calibrate first */
	bool calibrate;             /* print iterations_per_ms and nothing else */
	bool no_switch_cost;        /* leave the time of a switch out */
	bool wait;                  /* wait for "go" on standard input */
};

/* Read the command line. Exits on --help and, with a message, on what is not understood. */
struct options options_parse(int argc, char **argv);

#endif
