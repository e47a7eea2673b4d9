/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/blocked.h"

#include "base/clock.h"
#include "base/next.h"
#include "uthread/events.h"
#include "uthread/posix/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

/* After this number of waits that the kernel ended in vain the call itself is made. */
#define VAIN_WAITS 3

__attribute__((noinline)) int tek_ut__errno(void)
{
	return errno;
}

__attribute__((noinline)) int tek_ut__fail(int error)
{
	errno = error;
	return -1;
}

struct timespec tek_ut__deadline_in(const struct timespec *time)
{
	uint64_t now = tek__now(CLOCK_MONOTONIC), left = tek__ns_of(time);
	return tek__timespec_of(left < INT64_MAX - now ? now + left : INT64_MAX);
}

struct timespec tek_ut__time_until(const struct timespec *deadline)
{
	uint64_t now = tek__now(CLOCK_MONOTONIC), then = tek__ns_of(deadline);
	return tek__timespec_of(then > now ? then - now : 0);
}

int tek_ut__poll_files(struct pollfd *files, nfds_t count)
{
	int ready;
	do {
		ready = TEK_REAL(poll)(files, count, 0);
	} while (ready < 0 && tek_ut__errno() == EINTR);
	return ready;
}

bool tek_ut__ready_now(int file, short events)
{
	struct pollfd one = {.fd = file, .events = events};
	return tek_ut__poll_files(&one, 1) != 0;
}

/* The properties of all waits of this call. 0 or EAGAIN. */
static int begin(struct tek_blocked *blocked)
{
	struct timeval limit = {0};
	socklen_t size = sizeof(limit);

	if (fcntl(blocked->file, F_GETFL) & O_NONBLOCK)
		return EAGAIN;
	if (blocked->timeout_option &&
	    getsockopt(blocked->file, SOL_SOCKET, blocked->timeout_option, &limit, &size) == 0 &&
	    (limit.tv_sec || limit.tv_usec)) {
		const struct timespec time = {limit.tv_sec, limit.tv_usec * 1000};
		blocked->deadline = tek_ut__deadline_in(&time);
		blocked->limited = true;
	}
	return 0;
}

static unsigned long handlers_run(bool restarts)
{
	return restarts ? tek_ut__failing_handlers_run() : tek_ut__handlers_run();
}

struct tek_handlers tek_ut__handlers_from_here(bool restarts)
{
	return (struct tek_handlers){.restarts = restarts, .run = handlers_run(restarts)};
}

bool tek_ut__handlers_came(const struct tek_handlers *handlers)
{
	return handlers_run(handlers->restarts) != handlers->run;
}

int tek_ut__blocked_interrupted(const struct tek_handlers *handlers)
{
	tek_ut__interrupted();
	return tek_ut__handlers_came(handlers) ? EINTR : 0;
}

bool tek_ut__failed_by_engine(const struct tek_handlers *handlers)
{
	return tek_ut__errno() == EINTR && !tek_ut__handlers_came(handlers);
}

int tek_ut__blocked_wait(struct tek_blocked *blocked, bool done)
{
	if (blocked->waits == 0 && begin(blocked) != 0)
		return EAGAIN;
	/* With a timeout of its own a socket's call is never restarted: signal(7). */
	const struct tek_handlers handlers = tek_ut__handlers_from_here(
		!(blocked->limited && blocked->timeout_option));
	/*
	 * A datagram for a receiver with a full queue: the sender's socket is ready, and still it
	 * has to wait. Receivers wake up in vain when other ones are faster.
	 */
	if (blocked->waits++ >= VAIN_WAITS && (blocked->events & POLLOUT) && !done)
		return TEK_CALL_ITSELF;
	switch (tek_ut__events_wait(blocked->file, blocked->events,
				    blocked->limited ? &blocked->deadline : NULL)) {
	case 0:
		return 0;
	case -ETIMEDOUT:
		return EAGAIN;
	case -EINTR:
		if (done && tek_ut__cancel_is_due())
			return EINTR;
		return tek_ut__blocked_interrupted(&handlers);
	default:
		return TEK_CALL_ITSELF;
	}
}

size_t tek_ut__iovec_bytes(const struct iovec *vector, size_t count)
{
	size_t bytes = 0;
	for (size_t i = 0; i < count; i++)
		bytes += vector[i].iov_len;
	return bytes;
}

bool tek_ut__rest_done(struct tek_rest *rest, size_t bytes)
{
	rest->skip += bytes;
	while (rest->count && rest->skip >= rest->vector->iov_len) {
		rest->skip -= rest->vector->iov_len;
		rest->vector++;
		rest->count--;
	}
	return rest->count != 0;
}

const struct iovec *tek_ut__rest_next(struct tek_rest *rest, size_t *count)
{
	if (!rest->skip) {
		*count = rest->count;
		return rest->vector;
	}
	rest->head = (struct iovec){(char *)rest->vector->iov_base + rest->skip,
				    rest->vector->iov_len - rest->skip};
	*count = 1;
	return &rest->head;
}
