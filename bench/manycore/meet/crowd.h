/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Shared by the two programs here and spin: options, and threads that begin together. */
#ifndef MANYCORE_MEET_CROWD_H
#define MANYCORE_MEET_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#define CROWD_MOST 1024
#define KINDS_MOST 32
#define LISTED_MOST 16

/* As given on the command line. */
struct crowd_options {
	unsigned int threads[LISTED_MOST], thread_counts;
	unsigned int shares[LISTED_MOST], share_counts; /* per cent that write: of rwlocks */
	const char *kinds;                              /* NULL: all */
	uint64_t times, rounds, limit_ms;
	bool places, pins; /* places: of spin, which knows --pin and --memory */
	const char *memory;
};

/* Ends the program if they are wrong.  `options` is how they are by default. */
void crowd_options(struct crowd_options *options, int argc, char **argv, const char *usage);

/* Whether it is among those of --kinds. */
bool crowd_wants(const struct crowd_options *options, const char *kind);

/*
 * Runs one(number, ...) in so many threads, which begin at the same time; the ns until the last one
 * has ended.
 */
uint64_t crowd_run(unsigned int count, void (*one)(unsigned int number));

#endif
