/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Points of time until which somebody waits: of CLOCK_REALTIME or CLOCK_MONOTONIC, as the program gave them.
 * The engine knows CLOCK_MONOTONIC only.  What somebody does to CLOCK_REALTIME while a thread waits is not noticed.
 */
#ifndef TEK_SYNC_UNTIL_H
#define TEK_SYNC_UNTIL_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

struct tek_until {
	clockid_t clock;
	const struct timespec *at; /* NULL: for ever */
};

#define TEK_FOR_EVER ((struct tek_until){CLOCK_MONOTONIC, NULL})

/* Of CLOCK_MONOTONIC, so many ns from now, of less than a second. */
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
 * The same of CLOCK_MONOTONIC: *deadline points to *room, or is NULL for ever.  0 or EINVAL: that is no time.
 * To be called only when there is nothing left but to wait: a time that is not looked at may be anything.
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
