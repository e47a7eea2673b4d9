/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Descriptors that close, by any thread, user-level or not: their waiters are woken, and the
 * engine's own stay open (hidden.h).
 */
#include "uthread/posix/blocking.h"

#include "base/next.h"
#include "uthread/events.h"
#include "uthread/events_table.h"
#include "uthread/hidden.h"
#include "uthread/posix/blocked.h"
#include "uthread/posix/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436 /* the same everywhere, since Linux 5.9 */
#endif

/* Not a cancellation point. */
static int close_one(int file)
{
	if (tek_ut__hidden_is(file))
		return tek_ut__fail(EBADF);
	tek_ut__events_closing(file);
	int result = TEK_REAL(close)(file);
	int error = tek_ut__errno();
	tek_ut__events_closed(file);
	return result < 0 ? tek_ut__fail(error) : result;
}

int tek_ut__close(int file)
{
	tek_ut__cancel_point();
	return close_one(file);
}

/* `to` becomes another file: its previous file is closed. */
static int replaced(int to, int result)
{
	int error = tek_ut__errno();
	tek_ut__events_closed(to);
	return result < 0 ? tek_ut__fail(error) : result;
}

int tek_ut__dup2(int from, int to)
{
	if (from == to || tek_ut__hidden_is(from))
		return TEK_REAL(dup2)(tek_ut__hidden_is(from) ? -1 : from, to);
	if (!tek_ut__hidden_move(to))
		return tek_ut__fail(EMFILE);
	tek_ut__events_closing(to);
	return replaced(to, TEK_REAL(dup2)(from, to));
}

int tek_ut__dup3(int from, int to, int flags)
{
	if (from == to || tek_ut__hidden_is(from))
		return TEK_REAL(dup3)(tek_ut__hidden_is(from) ? -1 : from, to, flags);
	if (!tek_ut__hidden_move(to))
		return tek_ut__fail(EMFILE);
	tek_ut__events_closing(to);
	return replaced(to, TEK_REAL(dup3)(from, to, flags));
}

/* For kernels that have no close_range(2). */
static void close_each(unsigned int first, unsigned int last)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max <= last)
		last = (unsigned int)limit.rlim_max - 1;
	for (unsigned int file = first; file <= last && file <= INT_MAX; file++)
		close_one((int)file);
}

/* None of the engine's is among them. */
static int close_part(unsigned int first, unsigned int last, int flags)
{
	int most = last > INT_MAX ? INT_MAX : (int)last;

	if (first > last || first > INT_MAX)
		return 0;
	for (int file = tek_ut__file_from((int)first); file >= 0 && file <= most;
	     file = file < most ? tek_ut__file_from(file + 1) : -1)
		tek_ut__events_closing(file);
	int result = (int)syscall(SYS_close_range, first, last, flags);
	if (result < 0 && tek_ut__errno() == ENOSYS && flags == 0) {
		close_each(first, last);
		result = 0;
	}
	int error = tek_ut__errno();
	for (int file = tek_ut__file_from((int)first); file >= 0 && file <= most;
	     file = file < most ? tek_ut__file_from(file + 1) : -1)
		tek_ut__events_closed(file);
	return result < 0 ? tek_ut__fail(error) : 0;
}

int tek_ut__close_range(unsigned int first, unsigned int last, int flags)
{
	unsigned int from = first;

	/* The engine's are closed by exec anyway; and the kernel reports invalid arguments. */
	if (flags & CLOSE_RANGE_CLOEXEC || first > last)
		return (int)syscall(SYS_close_range, first, last, flags);
	for (unsigned int own = first; own <= last && own <= INT_MAX; own++) {
		int next = tek_ut__hidden_next((int)own);
		if (next < 0 || (unsigned int)next > last)
			break;
		own = (unsigned int)next;
		if (own > from && close_part(from, own - 1, flags))
			return -1;
		from = own + 1;
	}
	return close_part(from, last, flags);
}
