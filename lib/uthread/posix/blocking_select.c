/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * select(2): called without waiting until it has a result; in between the engine waits for the same
 * files as poll(2) would.
 */
#include "uthread/posix/blocking.h"

#include "base/clock.h"
#include "base/next.h"
#include "uthread/events.h"
#include "uthread/posix/blocked.h"
#include "uthread/posix/blocked_mask.h"
#include "uthread/posix/interrupt.h"

#include <errno.h>

/* The sets of a call: those of the caller, or copies. Any may be NULL. */
struct sets {
	fd_set *in, *out, *exceptions;
};

/* The arguments of a call: select(2) overwrites them. */
struct asked {
	int count;
	bool waits;       /* its time limit is not 0 */
	struct sets sets; /* the caller's */
	fd_set in, out, exceptions;
};

static void keep(fd_set *copy, const fd_set *set)
{
	if (set)
		*copy = *set;
	else
		FD_ZERO(copy);
}

/* Restores the caller's sets: for another call, or because this one fails. */
static void restore(const struct asked *asked)
{
	if (asked->sets.in)
		*asked->sets.in = asked->in;
	if (asked->sets.out)
		*asked->sets.out = asked->out;
	if (asked->sets.exceptions)
		*asked->sets.exceptions = asked->exceptions;
}

/* select(2) with the caller's sets, without waiting. As tek_ut__poll_files(). */
static int poll_once(const struct asked *asked)
{
	int ready;
	do {
		struct timeval none = {0};
		restore(asked);
		ready = TEK_REAL(select)(asked->count, asked->sets.in, asked->sets.out,
					 asked->sets.exceptions, &none);
	} while (ready < 0 && tek_ut__errno() == EINTR);
	return ready;
}

static short events_of(const struct asked *asked, int file)
{
	short events = 0;

	if (FD_ISSET(file, &asked->in))
		events |= POLLIN | POLLRDNORM | POLLRDBAND;
	if (FD_ISSET(file, &asked->out))
		events |= POLLOUT | POLLWRNORM | POLLWRBAND;
	if (FD_ISSET(file, &asked->exceptions))
		events |= POLLPRI;
	return events;
}

/* The number of awaited files, and their list, if `files` is not NULL. */
static nfds_t files_of(const struct asked *asked, struct pollfd *files)
{
	nfds_t found = 0;

	for (int file = 0; file < asked->count; file++) {
		short events = events_of(asked, file);
		if (!events)
			continue;
		if (files)
			files[found] = (struct pollfd){.fd = file, .events = events};
		found++;
	}
	return found;
}

/*
 * After a vain wake-up. The kernel reports a hang-up to every waiter, but select(2) counts it only
 * in one of its sets. Such a file will have no other event, so the wait leaves it out.
 */
static void leave_out_the_dead(struct pollfd *files, nfds_t count)
{
	if (tek_ut__poll_files(files, count) <= 0)
		return;
	for (nfds_t i = 0; i < count; i++) {
		if (files[i].fd >= 0 && files[i].revents & (POLLHUP | POLLERR) &&
		    !(files[i].revents & files[i].events))
			files[i].fd = -1;
	}
}

/* By the kernel, on the kernel thread. */
static int select_itself(const struct asked *asked, const struct timespec *deadline,
			 const struct tek_blocked_mask *mask)
{
	for (;;) {
		struct timespec left;
		if (deadline)
			left = tek_ut__time_until(deadline);
		int ready = TEK_REAL(pselect)(asked->count, asked->sets.in, asked->sets.out,
					      asked->sets.exceptions, deadline ? &left : NULL,
					      NULL);
		/* A failure leaves the sets as they were. */
		if (ready >= 0 || !tek_ut__failed_by_engine(&mask->handlers))
			return ready;
	}
}

static int select_until(const struct asked *asked, const struct timespec *deadline,
			const struct tek_blocked_mask *mask)
{
	struct pollfd files[FD_SETSIZE / 4];
	nfds_t count = files_of(asked, NULL);

	if (count > sizeof(files) / sizeof(*files))
		return select_itself(asked, deadline, mask);
	files_of(asked, files);
	for (bool first = true;; first = false) {
		int ready = poll_once(asked);
		if (ready != 0)
			return ready;
		if (tek_ut__handlers_came(&mask->handlers))
			return tek_ut__fail(EINTR);
		if (!asked->waits)
			return 0;
		if (!first)
			leave_out_the_dead(files, count);
		switch (tek_ut__events_wait_any(files, count, deadline)) {
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
			restore(asked);
			return select_itself(asked, deadline, mask);
		}
	}
}

/* `timeout` is valid, and may be NULL. */
static int select_masked(int count, const struct sets *sets, const struct timespec *timeout,
			 const sigset_t *mask)
{
	const struct timespec limit = timeout ? tek_ut__deadline_in(timeout) : (struct timespec){0};
	const struct timespec *deadline = timeout ? &limit : NULL;
	const struct tek_blocked_mask set = tek_ut__blocked_mask_set(mask);
	struct asked asked = {.count = count,
			      .waits = !timeout || timeout->tv_sec || timeout->tv_nsec,
			      .sets = *sets};
	int ready;

	/* Beyond that size only the kernel knows the size of the sets. */
	if (count > FD_SETSIZE) {
		ready = select_itself(&asked, deadline, &set);
	} else {
		keep(&asked.in, sets->in);
		keep(&asked.out, sets->out);
		keep(&asked.exceptions, sets->exceptions);
		ready = select_until(&asked, deadline, &set);
		if (ready < 0)
			restore(&asked);
	}
	return tek_ut__blocked_mask_reset(&set, ready);
}

int tek_ut__pselect(int count, fd_set *in, fd_set *out, fd_set *exceptions,
		    const struct timespec *timeout, const sigset_t *mask)
{
	const struct sets sets = {in, out, exceptions};

	tek_ut__cancel_point();
	/* The kernel reports invalid arguments. */
	if (count < 0 || (timeout && (timeout->tv_sec < 0 || timeout->tv_nsec < 0 ||
				      timeout->tv_nsec >= (long)TEK_NS_PER_SEC)))
		return TEK_REAL(pselect)(count, in, out, exceptions, timeout, NULL);
	return select_masked(count, &sets, timeout, mask);
}

int tek_ut__select(int count, fd_set *in, fd_set *out, fd_set *exceptions, struct timeval *timeout)
{
	const struct sets sets = {in, out, exceptions};

	tek_ut__cancel_point();
	if (count < 0 || (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0)))
		return TEK_REAL(select)(count, in, out, exceptions, timeout);
	if (!timeout)
		return select_masked(count, &sets, NULL, NULL);
	/* Microseconds may be more than a second: the kernel carries them. */
	const struct timespec time = {timeout->tv_sec + timeout->tv_usec / 1000000,
				      timeout->tv_usec % 1000000 * 1000};
	const struct timespec end = tek_ut__deadline_in(&time);
	int ready = select_masked(count, &sets, &time, NULL);
	/* Linux returns the remaining time: select(2). */
	const struct timespec left = tek_ut__time_until(&end);
	timeout->tv_sec = left.tv_sec;
	timeout->tv_usec = left.tv_nsec / 1000;
	return ready;
}
