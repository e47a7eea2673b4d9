/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Deadlines of waits: of CLOCK_REALTIME or CLOCK_MONOTONIC, as the program gave them. The engine
 * knows CLOCK_MONOTONIC only: setting CLOCK_REALTIME while a thread waits has no effect on it.
 */
#ifndef TEK_BASE_UNTIL_H
#define TEK_BASE_UNTIL_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

struct tek_until {
	clockid_t clock;
	const struct timespec *at; /* NULL: no deadline */
};

#define TEK_FOR_EVER ((struct tek_until){CLOCK_MONOTONIC, NULL})

/* The time of CLOCK_MONOTONIC `ns` from now, less than a second. */
struct timespec tek__in_ns(long ns);

static inline bool tek__clock_is_known(clockid_t clock)
{
	return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

static inline bool tek__is_time(const struct timespec *time)
{
	return time->tv_nsec >= 0 && time->tv_nsec < 1000000000;
}

/*
 * Converts to CLOCK_MONOTONIC: *deadline points to *room, or is NULL for ever. 0; EINVAL: not a
 * valid time. Call it only before waiting: an unused deadline may have any value.
 */
int tek__until_convert(struct tek_until until, struct timespec *room,
		       const struct timespec **deadline);

static inline int tek__until_deadline(struct tek_until until, struct timespec *room,
				      const struct timespec **deadline)
{
	*deadline = NULL;
	return until.at ? tek__until_convert(until, room, deadline) : 0;
}

#endif
