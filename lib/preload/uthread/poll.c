/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The symbols that wait for several files; see file.c. */
#include "base/export.h"
#include "base/next.h"
#include "uthread/posix/blocking.h"
#include "uthread/worker.h"

#include <features.h>
#include <poll.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/select.h>

/* NULL: less than 0 ms, for ever. */
static const struct timespec *time_of(int ms, struct timespec *room)
{
	if (ms < 0)
		return NULL;
	*room = (struct timespec){ms / 1000, ms % 1000 * 1000000L};
	return room;
}

TEK_EXPORT int poll(struct pollfd *files, nfds_t count, int ms)
{
	struct timespec room;
	return tek_ut__is_uthread() ? tek_ut__ppoll(files, count, time_of(ms, &room), NULL)
				    : TEK_REAL(poll)(files, count, ms);
}

int __poll(struct pollfd *files, nfds_t count, int ms);
TEK_EXPORT int __poll(struct pollfd *files, nfds_t count, int ms)
{
	return poll(files, count, ms);
}

TEK_EXPORT int ppoll(struct pollfd *files, nfds_t count, const struct timespec *timeout,
		     const sigset_t *mask)
{
	return tek_ut__is_uthread() ? tek_ut__ppoll(files, count, timeout, mask)
				    : TEK_REAL(ppoll)(files, count, timeout, mask);
}

TEK_EXPORT int select(int count, fd_set *restrict in, fd_set *restrict out,
		      fd_set *restrict exceptions, struct timeval *restrict timeout)
{
	return tek_ut__is_uthread() ? tek_ut__select(count, in, out, exceptions, timeout)
				    : TEK_REAL(select)(count, in, out, exceptions, timeout);
}

int __select(int count, fd_set *in, fd_set *out, fd_set *exceptions, struct timeval *timeout);
TEK_EXPORT int __select(int count, fd_set *in, fd_set *out, fd_set *exceptions,
			struct timeval *timeout)
{
	return select(count, in, out, exceptions, timeout);
}

TEK_EXPORT int pselect(int count, fd_set *restrict in, fd_set *restrict out,
		       fd_set *restrict exceptions, const struct timespec *restrict timeout,
		       const sigset_t *restrict mask)
{
	return tek_ut__is_uthread() ? tek_ut__pselect(count, in, out, exceptions, timeout, mask)
				    : TEK_REAL(pselect)(count, in, out, exceptions, timeout, mask);
}

TEK_EXPORT int epoll_wait(int set, struct epoll_event *events, int most, int ms)
{
	struct timespec room;
	return tek_ut__is_uthread()
		       ? tek_ut__epoll_pwait(set, events, most, time_of(ms, &room), NULL)
		       : TEK_REAL(epoll_wait)(set, events, most, ms);
}

TEK_EXPORT int epoll_pwait(int set, struct epoll_event *events, int most, int ms,
			   const sigset_t *mask)
{
	struct timespec room;
	return tek_ut__is_uthread()
		       ? tek_ut__epoll_pwait(set, events, most, time_of(ms, &room), mask)
		       : TEK_REAL(epoll_pwait)(set, events, most, ms, mask);
}

#if defined(__GLIBC__)

#if __GLIBC_PREREQ(2, 35)
TEK_EXPORT int epoll_pwait2(int set, struct epoll_event *events, int most,
			    const struct timespec *timeout, const sigset_t *mask)
{
	return tek_ut__is_uthread() ? tek_ut__epoll_pwait(set, events, most, timeout, mask)
				    : TEK_REAL(epoll_pwait2)(set, events, most, timeout, mask);
}
#endif

/* See __read_chk() in file.c. */

int __poll_chk(struct pollfd *files, nfds_t count, int ms, size_t room);
TEK_EXPORT int __poll_chk(struct pollfd *files, nfds_t count, int ms, size_t room)
{
	return count > room / sizeof(*files) ? TEK_REAL(__poll_chk)(files, count, ms, room)
					     : poll(files, count, ms);
}

int __ppoll_chk(struct pollfd *files, nfds_t count, const struct timespec *timeout,
		const sigset_t *mask, size_t room);
TEK_EXPORT int __ppoll_chk(struct pollfd *files, nfds_t count, const struct timespec *timeout,
			   const sigset_t *mask, size_t room)
{
	return count > room / sizeof(*files)
		       ? TEK_REAL(__ppoll_chk)(files, count, timeout, mask, room)
		       : ppoll(files, count, timeout, mask);
}

#endif
