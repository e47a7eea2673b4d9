/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What `micro` measures: the columns of Tables 2 to 7 of kernel-threads-wapip-2007, which come from
 * lmbench. Each is a function that measures once and returns the number in the column's unit.
 */
#ifndef KTHREAD_MICRO_H
#define KTHREAD_MICRO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct column {
	unsigned table;
	const char *name;
	const char *unit;
	double (*measure)(void);
};

/* Each ends with one without a name. */
extern const struct column process_columns[];
extern const struct column switch_columns[];
extern const struct column file_columns[];
extern const struct column local_columns[];
extern const struct column memory_columns[];

/* A directory for files of its own. */
extern const char *directory;

/* The time of one of `times`, in ns: the median of some batches. */
double time_ns(void (*work)(unsigned times), unsigned times);

/* The median of some numbers, whose order changes. */
double median(double *numbers, unsigned count);

/* Exit with a message if a call failed; its result otherwise. */
long must(long result, const char *what);

/* A child that runs this and exits. */
pid_t start_child(void (*run)(void));

/* End a child and wait for it. */
void end_child(pid_t child);

#endif
