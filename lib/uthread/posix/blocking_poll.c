/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/blocking.h"

#include "base/clock.h"
#include "base/next.h"
#include "uthread/events.h"
#include "uthread/posix/blocked.h"
#include "uthread/posix/blocked_mask.h"
#include "uthread/posix/interrupt.h"

#include <errno.h>

/* The time limit of a call. */
struct limit {
	bool limited;
	struct timespec deadline;
};

static struct limit limit_of(const struct timespec *timeout)
{
	struct limit limit = {.limited = timeout != NULL};
	if (timeout)
		limit.deadline = tek_ut__deadline_in(timeout);
	return limit;
}

static const struct timespec *deadline_of(const struct limit *limit)
{
	return limit->limited ? &limit->deadline : NULL;
}

static bool is_wrong(const struct timespec *time)
{
	return time &&
	       (time->tv_sec < 0 || time->tv_nsec < 0 || time->tv_nsec >= (long)TEK_NS_PER_SEC);
}

static bool is_none(const struct timespec *time)
{
	return time && !time->tv_sec && !time->tv_nsec;
}

/* The engine cannot wait for these: the kernel does, for the rest of the time. */
static int poll_itself(struct pollfd *files, nfds_t count, const struct limit *limit,
		       const struct tek_blocked_mask *mask)
{
	for (;;) {
		struct timespec left;
		if (limit->limited)
			left = tek_ut__time_until(&limit->deadline);
		int ready = TEK_REAL(ppoll)(files, count, limit->limited ? &left : NULL, NULL);
		if (ready >= 0 || !tek_ut__failed_by_engine(&mask->handlers))
			return ready;
	}
}

static int poll_until(struct pollfd *files, nfds_t count, const struct limit *limit,
		      const struct tek_blocked_mask *mask)
{
	for (;;) {
		int ready = tek_ut__poll_files(files, count);
		if (ready != 0)
			return ready;
		if (tek_ut__handlers_came(&mask->handlers))
			return tek_ut__fail(EINTR);
		switch (tek_ut__events_wait_any(files, count, deadline_of(limit))) {
		case 0:
		case -EBADF: /* closed meanwhile: poll(2) will report that */
			break;
		case -ETIMEDOUT:
			return 0;
		case -EINTR:
			if (tek_ut__blocked_interrupted(&mask->handlers))
				return tek_ut__fail(EINTR);
			break;
		default:
			return poll_itself(files, count, limit, mask);
		}
	}
}

int tek_ut__ppoll(struct pollfd *files, nfds_t count, const struct timespec *timeout,
		  const sigset_t *mask)
{
	tek_ut__cancel_point();
	if (is_none(timeout) && !mask)
		return tek_ut__poll_files(files, count);
	if (is_wrong(timeout))
		return TEK_REAL(ppoll)(files, count, timeout, NULL);
	const struct limit limit = limit_of(timeout);
	const struct tek_blocked_mask set = tek_ut__blocked_mask_set(mask);
	return tek_ut__blocked_mask_reset(&set, poll_until(files, count, &limit, &set));
}

/* As poll_itself(). */
static int epoll_itself(int set, struct epoll_event *events, int most, const struct limit *limit,
			const struct tek_blocked_mask *mask)
{
	for (;;) {
		struct pollfd one = {.fd = set, .events = POLLIN};
		int ready = poll_itself(&one, 1, limit, mask);
		if (ready > 0)
			ready = TEK_REAL(epoll_wait)(set, events, most, 0);
		else
			return ready;
		if (ready != 0)
			return ready; /* else another thread was faster */
	}
}

/* An epoll set is a file that is ready when one of its own is. */
static int epoll_until(int set, struct epoll_event *events, int most, const struct limit *limit,
		       const struct tek_blocked_mask *mask)
{
	for (;;) {
		int ready = TEK_REAL(epoll_wait)(set, events, most, 0);
		if (ready < 0 && tek_ut__failed_by_engine(&mask->handlers))
			continue;
		if (ready != 0)
			return ready;
		if (tek_ut__handlers_came(&mask->handlers))
			return tek_ut__fail(EINTR);
		switch (tek_ut__events_wait(set, POLLIN, deadline_of(limit))) {
		case 0:
		case -EBADF:
			break;
		case -ETIMEDOUT:
			return 0;
		case -EINTR:
			if (tek_ut__blocked_interrupted(&mask->handlers))
				return tek_ut__fail(EINTR);
			break;
		default:
			return epoll_itself(set, events, most, limit, mask);
		}
	}
}

int tek_ut__epoll_pwait(int set, struct epoll_event *events, int most,
			const struct timespec *timeout, const sigset_t *mask)
{
	tek_ut__cancel_point();
	if (is_wrong(timeout))
		return tek_ut__fail(EINVAL);
	if (is_none(timeout) && !mask)
		return TEK_REAL(epoll_wait)(set, events, most, 0);
	const struct limit limit = limit_of(timeout);
	const struct tek_blocked_mask masked = tek_ut__blocked_mask_set(mask);
	return tek_ut__blocked_mask_reset(&masked, epoll_until(set, events, most, &limit, &masked));
}
