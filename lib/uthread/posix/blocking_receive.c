/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/blocking.h"

#include "base/clock.h"
#include "base/next.h"
#include "uthread/posix/blocked.h"
#include "uthread/posix/interrupt.h"

#include <errno.h>

/*
 * Whether the kernel does it at once, or in a way of its own: with both MSG_PEEK and MSG_WAITALL it
 * waits for more than poll(2) can report.
 */
static bool is_special(int flags)
{
	return flags & (MSG_DONTWAIT | MSG_ERRQUEUE | MSG_OOB) ||
	       (flags & (MSG_PEEK | MSG_WAITALL)) == (MSG_PEEK | MSG_WAITALL);
}

/* MSG_WAITALL: only streams wait for the whole. */
static bool is_stream(int file)
{
	int type = 0;
	socklen_t size = sizeof(type);
	return getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

/* As recvmsg(2). `begun`: the call has received something already, so cancellation has to wait. */
static ssize_t receive(int file, struct msghdr *message, int flags, bool begun)
{
	struct tek_blocked blocked = {
		.file = file, .events = POLLIN, .timeout_option = SO_RCVTIMEO};
	struct tek_rest rest = tek_ut__rest_of(message->msg_iov, message->msg_iovlen);
	struct msghdr part = *message;
	size_t done = 0;
	int dont_wait = MSG_DONTWAIT;

	for (;;) {
		const struct tek_handlers handlers = tek_ut__handlers_from_here(false);
		ssize_t got = TEK_REAL(recvmsg)(file, &part, flags | dont_wait);
		if (got >= 0) {
			if (done == 0) { /* an address, control messages: those of the first part */
				message->msg_namelen = part.msg_namelen;
				message->msg_controllen = part.msg_controllen;
			}
			message->msg_flags = part.msg_flags;
			done += (size_t)got;
			if (got == 0 || !(flags & MSG_WAITALL) || part.msg_controllen ||
			    !tek_ut__rest_done(&rest, (size_t)got) || !is_stream(file))
				return (ssize_t)done;
			size_t count;
			part = (struct msghdr){
				.msg_iov = (struct iovec *)(uintptr_t)tek_ut__rest_next(&rest,
											&count)};
			part.msg_iovlen = count;
			continue;
		}
		int error = tek_ut__errno();
		if (!dont_wait && tek_ut__failed_by_engine(&handlers))
			continue;
		if (error == EAGAIN && dont_wait) {
			error = tek_ut__blocked_wait(&blocked, begun || done > 0);
			if (error == TEK_CALL_ITSELF)
				dont_wait = error = 0;
		}
		if (error != 0)
			return tek_ut__done_or_fail(done, error);
	}
}

ssize_t tek_ut__recvmsg(int file, struct msghdr *message, int flags)
{
	tek_ut__cancel_point();
	if (is_special(flags))
		return TEK_REAL(recvmsg)(file, message, flags);
	return receive(file, message, flags, false);
}

ssize_t tek_ut__recvfrom(int file, void *bytes, size_t size, int flags, struct sockaddr *address,
			 socklen_t *length)
{
	struct iovec one = {bytes, size};
	struct msghdr message = {.msg_name = address,
				 .msg_namelen = address && length ? *length : 0,
				 .msg_iov = &one,
				 .msg_iovlen = 1};

	tek_ut__cancel_point();
	if (is_special(flags))
		return TEK_REAL(recvfrom)(file, bytes, size, flags, address, length);
	ssize_t got = receive(file, &message, flags, false);
	if (got >= 0 && address && length)
		*length = message.msg_namelen;
	return got;
}

/* Whether recvmmsg(2) ends after this many messages. */
static bool is_enough(unsigned int done, unsigned int count, int flags,
		      const struct timespec *deadline)
{
	if (done == count || (done && flags & MSG_WAITFORONE))
		return true;
	/* "The timeout is checked only after the receipt of each datagram" */
	return done && deadline && tek__now(CLOCK_MONOTONIC) >= tek__ns_of(deadline);
}

int tek_ut__recvmmsg(int file, struct mmsghdr *messages, unsigned int count, int flags,
		     struct timespec *timeout)
{
	struct timespec deadline;
	unsigned int done = 0;
	int one = flags & ~MSG_WAITFORONE;

	tek_ut__cancel_point();
	if (is_special(flags) || (timeout && (timeout->tv_sec < 0 || timeout->tv_nsec < 0 ||
					      timeout->tv_nsec >= (long)TEK_NS_PER_SEC)))
		return TEK_REAL(recvmmsg)(file, messages, count, flags, timeout);
	if (timeout)
		deadline = tek_ut__deadline_in(timeout);
	/* All available messages in one call; the wait for the next one is as in recvmsg(2). */
	while (!is_enough(done, count, flags, timeout ? &deadline : NULL)) {
		int more = TEK_REAL(recvmmsg)(file, messages + done, count - done,
					      one | MSG_DONTWAIT, NULL);
		if (more > 0) {
			done += (unsigned int)more;
			continue;
		}
		if (more < 0 && tek_ut__errno() != EAGAIN)
			return done ? (int)done : -1;
		ssize_t got = receive(file, &messages[done].msg_hdr, one, done > 0);
		if (got < 0)
			return done ? (int)done : -1;
		messages[done++].msg_len = (unsigned int)got;
	}
	if (timeout)
		*timeout = tek_ut__time_until(&deadline);
	return (int)done;
}
