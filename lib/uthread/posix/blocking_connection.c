/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/blocking.h"

#include "preload/uthread/real.h"
#include "uthread/events.h"
#include "uthread/posix/blocked.h"
#include "uthread/posix/interrupt.h"
#include "uthread/worker.h"

#include <errno.h>
#include <fcntl.h>

/* After as many times that somebody else was about to accept we do not believe that any more. */
#define VAIN_CLAIMS 3

/*
 * accept(2) knows no "do not wait" for one call.  So whether there is a connection is looked at before, by one
 * thread at a time, or two would see the same one.  Another process may still be faster: then the kernel makes us
 * wait.  Returns whether it was tried; *result then.
 */
static bool try_accept(int file, struct sockaddr *address, socklen_t *length, int flags,
		       unsigned int waits, int *result)
{
	bool claimed = tek__events_claim(file), ready = false;

	if (claimed || waits > VAIN_CLAIMS)
		ready = tek__ready_now(file, POLLIN);
	if (ready) {
		const struct tek_handlers handlers = tek__handlers_from_here(false);
		do {
			*result = TEK_REAL(accept4)(file, address, length, flags);
		} while (*result < 0 && tek__failed_by_engine(&handlers));
	}
	if (claimed)
		tek__events_disclaim(file);
	return ready;
}

int tek__accept4(int file, struct sockaddr *address, socklen_t *length, int flags)
{
	struct tek_blocked blocked = {
		.file = file, .events = POLLIN, .timeout_option = SO_RCVTIMEO};
	int result;

	tek__cancel_point();
	while (!try_accept(file, address, length, flags, blocked.waits, &result)) {
		int error = tek__blocked_wait(&blocked, false);
		/* Non-blocking: what it would have said, for it may be no socket that listens. */
		if (error == TEK_CALL_ITSELF || (error == EAGAIN && blocked.waits == 0))
			return TEK_REAL(accept4)(file, address, length, flags);
		if (error != 0)
			return tek__fail(error);
	}
	return result;
}

/*
 * Begins to connect, as if the socket were non-blocking.  There is no other way to say so, and the flag belongs to
 * all who share the file: so it is set for one system call, during which nobody else runs here.
 */
static int begin_to_connect(int file, int flags, const struct sockaddr *address, socklen_t length)
{
	tek__enter();
	if (fcntl(file, F_SETFL, flags | O_NONBLOCK)) {
		tek__leave();
		return TEK_CALL_ITSELF;
	}
	int error = TEK_REAL(connect)(file, address, length) ? tek__errno() : 0;
	fcntl(file, F_SETFL, flags);
	tek__leave();
	return error;
}

int tek__connect(int file, const struct sockaddr *address, socklen_t length)
{
	struct tek_blocked blocked = {
		.file = file, .events = POLLOUT, .timeout_option = SO_SNDTIMEO};
	int type = 0;
	socklen_t size = sizeof(type);

	tek__cancel_point();
	int flags = fcntl(file, F_GETFL);
	/* Datagrams' sockets do not wait. */
	if (flags < 0 || flags & O_NONBLOCK ||
	    getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &size) || type == SOCK_DGRAM)
		return TEK_REAL(connect)(file, address, length);
	int error = begin_to_connect(file, flags, address, length);
	/* Another call may have been interrupted and left a connection that is being made: EALREADY. */
	while (error == EINPROGRESS || error == EALREADY) {
		error = tek__blocked_wait(&blocked, false);
		if (error == EAGAIN)
			return tek__fail(EINPROGRESS); /* SO_SNDTIMEO: socket(7) */
		/* Made or refused: the kernel says which, and remembers that we know, when asked once more. */
		if (error == 0)
			error = tek__ready_now(file, POLLOUT) ? EAGAIN : EINPROGRESS;
	}
	/* Of a local socket: who listens has too many who wait, and there is nothing to wait for but the call. */
	if (error == EAGAIN || error == TEK_CALL_ITSELF) {
		const struct tek_handlers handlers = tek__handlers_from_here(false);
		int result;
		do {
			result = TEK_REAL(connect)(file, address, length);
		} while (result < 0 && tek__failed_by_engine(&handlers));
		return result;
	}
	return error ? tek__fail(error) : 0;
}
