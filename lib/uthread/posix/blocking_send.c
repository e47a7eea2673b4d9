/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/blocking.h"

#include "base/next.h"
#include "uthread/posix/blocked.h"
#include "uthread/posix/interrupt.h"

#include <errno.h>

/*
 * On a blocking stream all is sent before the call returns. An error after a part was sent raises
 * no signal, and the call returns the number of bytes: the next one fails.
 */
ssize_t tek_ut__send_all(int file, const struct msghdr *whole, int flags, bool begun)
{
	struct tek_blocked blocked = {
		.file = file, .events = POLLOUT, .timeout_option = SO_SNDTIMEO};
	struct tek_rest rest = tek_ut__rest_of(whole->msg_iov, whole->msg_iovlen);
	struct msghdr part = *whole;
	size_t done = 0;
	int dont_wait = MSG_DONTWAIT;

	for (;;) {
		const struct tek_handlers handlers = tek_ut__handlers_from_here(false);
		ssize_t sent = TEK_REAL(sendmsg)(file, &part, flags | dont_wait);
		if (sent >= 0) {
			done += (size_t)sent;
			if (!tek_ut__rest_done(&rest, (size_t)sent))
				return (ssize_t)done;
			size_t count;
			part = (struct msghdr){
				.msg_iov = (struct iovec *)(uintptr_t)tek_ut__rest_next(&rest,
											&count)};
			part.msg_iovlen = count;
			part.msg_name = whole->msg_name;
			part.msg_namelen = whole->msg_namelen;
			flags |= MSG_NOSIGNAL;
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

/* Whether the kernel does it at once, or in a way of its own. */
static bool is_special(int flags, size_t bytes)
{
	return flags & (MSG_DONTWAIT | MSG_FASTOPEN) || bytes == 0;
}

ssize_t tek_ut__sendmsg(int file, const struct msghdr *message, int flags)
{
	tek_ut__cancel_point();
	if (is_special(flags, tek_ut__iovec_bytes(message->msg_iov, message->msg_iovlen)))
		return TEK_REAL(sendmsg)(file, message, flags);
	return tek_ut__send_all(file, message, flags, false);
}

ssize_t tek_ut__sendto(int file, const void *bytes, size_t size, int flags,
		       const struct sockaddr *address, socklen_t length)
{
	struct iovec one = {(void *)(uintptr_t)bytes, size};
	const struct msghdr message = {.msg_name = (void *)(uintptr_t)address,
				       .msg_namelen = length,
				       .msg_iov = &one,
				       .msg_iovlen = 1};

	tek_ut__cancel_point();
	if (is_special(flags, size))
		return TEK_REAL(sendto)(file, bytes, size, flags, address, length);
	return tek_ut__send_all(file, &message, flags, false);
}

int tek_ut__sendmmsg(int file, struct mmsghdr *messages, unsigned int count, int flags)
{
	unsigned int sent = 0;

	tek_ut__cancel_point();
	/*
	 * One by one, each with its own wait; if none was sent the call returns the first one's
	 * error.
	 */
	for (; sent < count; sent++) {
		const struct msghdr *message = &messages[sent].msg_hdr;
		ssize_t bytes = is_special(flags, tek_ut__iovec_bytes(message->msg_iov,
								      message->msg_iovlen))
					? TEK_REAL(sendmsg)(file, message, flags)
					: tek_ut__send_all(file, message, flags, sent > 0);
		if (bytes < 0)
			return sent ? (int)sent : -1;
		messages[sent].msg_len = (unsigned int)bytes;
	}
	return (int)sent;
}
