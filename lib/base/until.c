/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/until.h"

#define SECOND 1000000000L
/* 34 years.  Later than that is for ever, and no sum here overflows. */
#define SECONDS_MAX 0x3fffffff

struct timespec tek__in_ns(long ns)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	time.tv_nsec += ns;
	if (time.tv_nsec >= SECOND) {
		time.tv_nsec -= SECOND;
		time.tv_sec++;
	}
	return time;
}

__attribute__((noinline)) int tek__until_convert(struct tek_until until, struct timespec *room,
						 const struct timespec **deadline)
{
	struct timespec there, here;

	if (!tek__is_time(until.at))
		return EINVAL;
	*room = *until.at;
	*deadline = room;
	if (room->tv_sec < 0) {
		*room = (struct timespec){0, 0};
		return 0;
	}
	if (until.clock != CLOCK_MONOTONIC) {
		/*
		 * In this order: time that passes between the two makes it later, never too early.
		 */
		clock_gettime(until.clock, &there);
		clock_gettime(CLOCK_MONOTONIC, &here);
		room->tv_sec -= there.tv_sec;
		room->tv_nsec -= there.tv_nsec;
		if (room->tv_sec > SECONDS_MAX) {
			*deadline = NULL;
			return 0;
		}
		room->tv_sec += here.tv_sec;
		room->tv_nsec += here.tv_nsec;
		if (room->tv_nsec < 0) {
			room->tv_nsec += SECOND;
			room->tv_sec--;
		} else if (room->tv_nsec >= SECOND) {
			room->tv_nsec -= SECOND;
			room->tv_sec++;
		}
		if (room->tv_sec < 0)
			*room = (struct timespec){0, 0};
	} else if (room->tv_sec > SECONDS_MAX) {
		*deadline = NULL;
	}
	return 0;
}
