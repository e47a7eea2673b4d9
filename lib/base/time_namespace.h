/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How far the clocks of this process are ahead of those of the initial time namespace
 * (time_namespaces(7)).
 *
 * Times that another process reads or compares are converted to the initial namespace first.  Linux
 * shifts clock_gettime(2) by the namespace of the caller, and field 22 of /proc/PID/stat by that of
 * the reader.
 *
 * The functions need no lock and allocate nothing; errno stays as it is.
 */
#ifndef TEK_BASE_TIME_NAMESPACE_H
#define TEK_BASE_TIME_NAMESPACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* In ns; all are 0 outside of a time namespace. */
struct tek_time_offsets {
	int64_t monotonic_ns; /* of CLOCK_MONOTONIC */
	int64_t boottime_ns;  /* of CLOCK_BOOTTIME */
	int64_t stat_ns;      /* of start times in /proc/PID/stat: 0 before Linux 5.11 */
};

/*
 * The offsets now; a fork can change them.  False, and zeros, if they are not known: there is no
 * /proc, or only children of this process will be in the namespace that /proc shows.
 */
bool tek__time_offsets(struct tek_time_offsets *offsets);

/*
 * The start time of a process or thread in CLOCK_BOOTTIME of the initial namespace, in ns, up to
 * one clock tick too early.  0: it is not known.
 */
uint64_t tek__start_ns(pid_t tid, const struct tek_time_offsets *offsets);

/* Whether two such times, which different processes may have read, can be those of one process. */
bool tek__is_same_start(uint64_t one_ns, uint64_t other_ns);

#endif
