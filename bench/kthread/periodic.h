/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A task that does something to files in each period, and how long each time took
 * (kernel-threads-wapip-2007, Figs. 2, 7 and 12): the response is the time from when a period
 * began to the end of the work.  A task that is late begins the next period at once.
 */
#ifndef KTHREAD_PERIODIC_H
#define KTHREAD_PERIODIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_FILES 64

struct periodic {
	const char *path;    /* the file; of several NUMBER is appended */
	unsigned files;      /* so many, in turn */
	uint64_t file_bytes; /* of each, after which it begins anew */
	size_t bytes;        /* written or read each time */
	uint64_t period_ns;  /* 0: without a pause */
	uint64_t count;      /* at most so many times; 0: until its time is over */
	int priority;        /* SCHED_FIFO; 0: as it was started */
	int cpu;             /* on which it stays; -1: on any */
	bool direct;         /* past the page cache */
	bool sync;           /* each write waits for the disk */
	uint64_t sample_ns;  /* period in which memory is sampled; 0: never */

	/* Made by periodic_run(). */
	int fd[MAX_FILES];
	char *buffer;
};

/* Do the work once, with an open file. Exits with a message on failure. */
typedef void (*periodic_work)(const struct periodic *task, int fd, uint64_t iteration);

/* Parses the command line. */
struct periodic periodic_parse(int argc, char **argv, const char *help);

/* Runs it, and prints everything. `flags` are those of open(2). */
void periodic_run(struct periodic *task, int flags, periodic_work work);

#endif
