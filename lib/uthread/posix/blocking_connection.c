/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/blocking.h"

#include "base/next.h"
#include "uthread/events.h"
#include "uthread/posix/blocked.h"
#include "uthread/posix/interrupt.h"
#include "uthread/worker.h"

#include <errno.h>
#include <fcntl.h>

/* After this number of vain claims the claims of other threads are ignored. */
#define VAIN_CLAIMS 3

/*
 * accept(2) has no non-blocking flag for one call. So one thread at a time first polls whether
 * there is a connection; two would see the same one. Another process may still be faster: then the
 * kernel makes this thread wait. Returns whether it was tried; *result then.
 */
static bool try_accept(int file, struct sockaddr *address, socklen_t *length, int flags,
		       unsigned int waits, int *result)
{
	bool claimed = tek_ut__events_claim(file), ready = false;

	if (claimed || waits > VAIN_CLAIMS)
		ready = tek_ut__ready_now(file, POLLIN);
	if (ready) {
		const struct tek_handlers handlers = tek_ut__handlers_from_here(false);
		do {
			*result = TEK_REAL(accept4)(file, address, length, flags);
		} while (*result < 0 && tek_ut__failed_by_engine(&handlers));
	}
	if (claimed)
		tek_ut__events_disclaim(file);
	return ready;
}

int tek_ut__accept4(int file, struct sockaddr *address, socklen_t *length, int flags)
{
	struct tek_blocked blocked = {
		.file = file, .events = POLLIN, .timeout_option = SO_RCVTIMEO};
	int result;

	tek_ut__cancel_point();
	while (!try_accept(file, address, length, flags, blocked.waits, &result)) {
		int error = tek_ut__blocked_wait(&blocked, false);
		/* Non-blocking: the kernel's own result, as it may not be a listening socket. */
		if (error == TEK_CALL_ITSELF || (error == EAGAIN && blocked.waits == 0))
			return TEK_REAL(accept4)(file, address, length, flags);
		if (error != 0)
			return tek_ut__fail(error);
	}
	return result;
}

/*
 * Begins to connect, as if the socket were non-blocking. There is no flag for one call, and
 * O_NONBLOCK belongs to all sharers of the file. So it is set for one system call, during which no
 * other thread runs here.
 */
static int begin_to_connect(int file, int flags, const struct sockaddr *address, socklen_t length)
{
	tek_ut__enter();
	if (fcntl(file, F_SETFL, flags | O_NONBLOCK)) {
		tek_ut__leave();
		return TEK_CALL_ITSELF;
	}
	int error = TEK_REAL(connect)(file, address, length) ? tek_ut__errno() : 0;
	fcntl(file, F_SETFL, flags);
	tek_ut__leave();
	return error;
}

int tek_ut__connect(int file, const struct sockaddr *address, socklen_t length)
{
	struct tek_blocked blocked = {
		.file = file, .events = POLLOUT, .timeout_option = SO_SNDTIMEO};
	int type = 0;
	socklen_t size = sizeof(type);

	tek_ut__cancel_point();
	int flags = fcntl(file, F_GETFL);
	/* Datagram sockets do not wait. */
	if (flags < 0 || flags & O_NONBLOCK ||
	    getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &size) || type == SOCK_DGRAM)
		return TEK_REAL(connect)(file, address, length);
	int error = begin_to_connect(file, flags, address, length);
	/* Another call may have been interrupted and left a pending connection: EALREADY. */
	while (error == EINPROGRESS || error == EALREADY) {
		error = tek_ut__blocked_wait(&blocked, false);
		if (error == EAGAIN)
			return tek_ut__fail(EINPROGRESS); /* SO_SNDTIMEO: socket(7) */
		/* Made or refused: one more call reports which, and clears the kernel's state. */
		if (error == 0)
			error = tek_ut__ready_now(file, POLLOUT) ? EAGAIN : EINPROGRESS;
	}
	/*
	 * A local socket: the listener's queue is full, and only the call itself can wait for that.
	 */
	if (error == EAGAIN || error == TEK_CALL_ITSELF) {
		const struct tek_handlers handlers = tek_ut__handlers_from_here(false);
		int result;
		do {
			result = TEK_REAL(connect)(file, address, length);
		} while (result < 0 && tek_ut__failed_by_engine(&handlers));
		return result;
	}
	return error ? tek_ut__fail(error) : 0;
}
