/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/blocking.h"

#include "base/clock.h"
#include "base/next.h"
#include "uthread/events.h"
#include "uthread/posix/blocked.h"
#include "uthread/posix/interrupt.h"
#include "uthread/wait.h"

#include <errno.h>
#include <limits.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Until `deadline`, CLOCK_MONOTONIC. 0 or EINTR. */
static int sleep_until(const struct timespec *deadline)
{
	const struct tek_handlers handlers = tek_ut__handlers_from_here(false);

	for (;;) {
		struct tek_waiter waiter;
		tek_ut__waiter_init(&waiter);
		if (tek_ut__wait_interruptible(&waiter, deadline, TEK_WAITS_SLEEP) == TEK_TIMED_OUT)
			return 0;
		if (tek_ut__blocked_interrupted(&handlers))
			return EINTR;
	}
}

static int sleep_for(const struct timespec *time, struct timespec *left)
{
	const struct timespec deadline = tek_ut__deadline_in(time);
	int error = sleep_until(&deadline);

	if (error == EINTR && left)
		*left = tek_ut__time_until(&deadline);
	return error;
}

/*
 * A time of a clock that can be set, or that goes on while the machine sleeps: the kernel reports
 * when it has come. 0, EINTR or TEK_CALL_ITSELF. The descriptor is closed before cancellation acts.
 */
static int sleep_until_clock(clockid_t clock, const struct timespec *time)
{
	const struct itimerspec at = {.it_value = *time};
	const struct tek_handlers handlers = tek_ut__handlers_from_here(false);

	for (;;) {
		int timer = timerfd_create(clock, TFD_CLOEXEC | TFD_NONBLOCK);
		if (timer < 0)
			return TEK_CALL_ITSELF;
		int result = timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
		if (result == 0)
			result = tek_ut__events_wait(timer, POLLIN, NULL);
		tek_ut__events_closing(timer);
		TEK_REAL(close)(timer);
		if (result == 0)
			return 0;
		if (result != -EINTR)
			return TEK_CALL_ITSELF;
		if (tek_ut__blocked_interrupted(&handlers))
			return EINTR;
	}
}

/* By the kernel, on the kernel thread. */
static int sleep_itself(clockid_t clock, int flags, const struct timespec *time,
			struct timespec *left)
{
	const struct tek_handlers handlers = tek_ut__handlers_from_here(false);
	struct timespec rest = *time;

	for (;;) {
		const struct timespec wanted = rest;
		int error = TEK_REAL(clock_nanosleep)(clock, flags, &wanted, &rest);
		if (error != EINTR || tek_ut__handlers_came(&handlers)) {
			if (error == EINTR && left && !(flags & TIMER_ABSTIME))
				*left = rest;
			return error;
		}
		if (flags & TIMER_ABSTIME)
			rest = *time;
	}
}

int tek_ut__clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
			    struct timespec *left)
{
	tek_ut__cancel_point();
	if (!time || time->tv_sec < 0 || time->tv_nsec < 0 || time->tv_nsec >= (long)TEK_NS_PER_SEC)
		return TEK_REAL(clock_nanosleep)(clock, flags, time, left);
	/* A relative time is the same on both. */
	if (clock == CLOCK_MONOTONIC || (clock == CLOCK_REALTIME && !(flags & TIMER_ABSTIME)))
		return flags & TIMER_ABSTIME ? sleep_until(time) : sleep_for(time, left);
	int error = TEK_CALL_ITSELF;
	if (flags & TIMER_ABSTIME && (clock == CLOCK_REALTIME || clock == CLOCK_BOOTTIME) &&
	    (time->tv_sec || time->tv_nsec))
		error = sleep_until_clock(clock, time);
	return error != TEK_CALL_ITSELF ? error : sleep_itself(clock, flags, time, left);
}

unsigned int tek_ut__sleep(unsigned int seconds)
{
	struct timespec time = {.tv_sec = (time_t)seconds}, left = {0};

	if (sizeof(time_t) == 4 && seconds > INT_MAX)
		time.tv_sec = INT_MAX;
	tek_ut__cancel_point();
	return sleep_for(&time, &left) ? (unsigned int)left.tv_sec : 0;
}
