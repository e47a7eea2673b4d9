/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * read(2) and write(2), of any file. The first try is for a socket, the most frequent kind by far:
 * every kernel has MSG_DONTWAIT. If the file is no socket its kind is queried.
 *
 *   a regular file, a block device   the call itself: it waits for a disk at most
 *   a pipe, an eventfd, and so on    RWF_NOWAIT, or poll(2) and then the call where the kernel has
 *                                    no RWF_NOWAIT for it
 *   a terminal                       poll(2) and then the call, by its settings
 *                                    (blocked_terminal.h)
 */
#include "uthread/posix/blocking.h"

#include "base/next.h"
#include "uthread/posix/blocked.h"
#include "uthread/posix/blocked_terminal.h"
#include "uthread/posix/interrupt.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

/* The kinds of files that are no sockets. */
enum kind { KIND_STORED, KIND_PIPE, KIND_CHARACTERS, KIND_OTHER };

static enum kind kind_of(int file)
{
	struct stat status;

	if (fstat(file, &status))
		return KIND_STORED; /* the call itself reports the error */
	switch (status.st_mode & S_IFMT) {
	case S_IFREG:
	case S_IFBLK:
	case S_IFDIR:
		return KIND_STORED;
	case S_IFIFO:
		return KIND_PIPE;
	case S_IFCHR:
		return KIND_CHARACTERS;
	default:
		return KIND_OTHER;
	}
}

/* Whether the kernel cannot do this to that file without waiting. */
static bool is_unknown(int error)
{
	return error == EOPNOTSUPP || error == ENOSYS;
}

/* After poll(2) found nothing: true: try again; else read_other() returns *result. */
static bool wait_to_read(struct tek_blocked *blocked, enum kind kind, const struct iovec *vector,
			 int count, ssize_t *result)
{
	int error = 0;

	if (kind == KIND_CHARACTERS && blocked->waits == 0)
		error = tek_ut__terminal_read(blocked, tek_ut__iovec_bytes(vector, (size_t)count));
	if (error == 0)
		error = tek_ut__blocked_wait(blocked, false);
	if (error == 0)
		return true;
	if (error == EAGAIN && blocked->limited && blocked->waits)
		*result = 0; /* VTIME of a terminal has passed */
	else if (error == EAGAIN || error == TEK_CALL_ITSELF)
		*result = TEK_REAL(readv)(blocked->file, vector, count);
	else
		*result = tek_ut__fail(error);
	return false;
}

static ssize_t read_other(int file, const struct iovec *vector, int count)
{
	struct tek_blocked blocked = {.file = file, .events = POLLIN};
	enum kind kind = kind_of(file);
	bool nowait = kind != KIND_STORED && kind != KIND_CHARACTERS;
	ssize_t result;

	if (kind == KIND_STORED)
		return TEK_REAL(readv)(file, vector, count);
	do {
		if (nowait) {
			result = TEK_REAL(preadv2)(file, vector, count, -1, RWF_NOWAIT);
			if (result >= 0)
				return result;
			if (is_unknown(tek_ut__errno()))
				nowait = false;
			else if (tek_ut__errno() != EAGAIN)
				return result;
		}
		if (!nowait && tek_ut__ready_now(file, POLLIN))
			return TEK_REAL(readv)(file, vector, count);
	} while (wait_to_read(&blocked, kind, vector, count, &result));
	return result;
}

ssize_t tek_ut__readv(int file, const struct iovec *vector, int count)
{
	struct tek_blocked blocked = {
		.file = file, .events = POLLIN, .timeout_option = SO_RCVTIMEO};
	struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)vector,
				 .msg_iovlen = (size_t)count};

	tek_ut__cancel_point();
	/* With no bytes, or too many vectors, the call itself returns at once. */
	if (count <= 0 || count > IOV_MAX || tek_ut__iovec_bytes(vector, (size_t)count) == 0)
		return TEK_REAL(readv)(file, vector, count);
	for (;;) {
		ssize_t got = TEK_REAL(recvmsg)(file, &message, MSG_DONTWAIT);
		if (got >= 0)
			return got;
		if (tek_ut__errno() == ENOTSOCK)
			return read_other(file, vector, count);
		if (tek_ut__errno() != EAGAIN)
			return got;
		int error = tek_ut__blocked_wait(&blocked, false);
		if (error == TEK_CALL_ITSELF)
			return TEK_REAL(readv)(file, vector, count);
		if (error != 0)
			return tek_ut__fail(error);
	}
}

ssize_t tek_ut__read(int file, void *bytes, size_t size)
{
	const struct iovec one = {bytes, size};
	return tek_ut__readv(file, &one, 1);
}

/* The call itself writes the rest; after `done` bytes. */
static ssize_t write_itself(int file, struct tek_rest *rest, size_t done)
{
	size_t count;
	const struct iovec *vector = tek_ut__rest_next(rest, &count);
	ssize_t sent = TEK_REAL(writev)(file, vector, (int)count);

	return sent < 0 ? tek_ut__done_or_fail(done, tek_ut__errno()) : (ssize_t)done + sent;
}

/*
 * A pipe that is ready has room for PIPE_BUF bytes, and takes so many in one piece: more would make
 * it wait. A terminal waits in the kernel while its output is stopped, like any program's.
 */
static ssize_t write_ready(int file, struct tek_rest *rest, enum kind kind)
{
	size_t count;
	const struct iovec *vector = tek_ut__rest_next(rest, &count);

	if (kind != KIND_PIPE || tek_ut__iovec_bytes(vector, count) <= PIPE_BUF)
		return TEK_REAL(writev)(file, vector, (int)count);
	while (vector->iov_len == 0)
		vector++;
	return TEK_REAL(write)(file, vector->iov_base,
			       vector->iov_len < PIPE_BUF ? vector->iov_len : PIPE_BUF);
}

static ssize_t write_other(int file, const struct iovec *vector, int count)
{
	struct tek_blocked blocked = {.file = file, .events = POLLOUT};
	struct tek_rest rest = tek_ut__rest_of(vector, (size_t)count);
	enum kind kind = kind_of(file);
	bool nowait = kind != KIND_CHARACTERS;
	size_t done = 0;

	if (kind == KIND_STORED)
		return TEK_REAL(writev)(file, vector, count);
	for (;;) {
		ssize_t sent = -1;
		if (nowait) {
			size_t left;
			const struct iovec *next = tek_ut__rest_next(&rest, &left);
			sent = TEK_REAL(pwritev2)(file, next, (int)left, -1, RWF_NOWAIT);
			if (sent < 0 && is_unknown(tek_ut__errno()))
				nowait = false;
			else if (sent < 0 && tek_ut__errno() != EAGAIN)
				return tek_ut__done_or_fail(done, tek_ut__errno());
		}
		if (!nowait && tek_ut__ready_now(file, POLLOUT)) {
			sent = write_ready(file, &rest, kind);
			if (sent < 0)
				return tek_ut__done_or_fail(done, tek_ut__errno());
		}
		if (sent >= 0) {
			done += (size_t)sent;
			if (!tek_ut__rest_done(&rest, (size_t)sent))
				return (ssize_t)done;
			continue;
		}
		int error = tek_ut__blocked_wait(&blocked, done > 0);
		if (error == EAGAIN || error == TEK_CALL_ITSELF)
			return write_itself(file, &rest, done);
		if (error != 0)
			return tek_ut__done_or_fail(done, error);
	}
}

ssize_t tek_ut__writev(int file, const struct iovec *vector, int count)
{
	const struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)vector,
				       .msg_iovlen = (size_t)count};

	tek_ut__cancel_point();
	if (count <= 0 || count > IOV_MAX || tek_ut__iovec_bytes(vector, (size_t)count) == 0)
		return TEK_REAL(writev)(file, vector, count);
	ssize_t sent = tek_ut__send_all(file, &message, 0, false);
	if (sent < 0 && tek_ut__errno() == ENOTSOCK)
		return write_other(file, vector, count);
	return sent;
}

ssize_t tek_ut__write(int file, const void *bytes, size_t size)
{
	const struct iovec one = {(void *)(uintptr_t)bytes, size};
	return tek_ut__writev(file, &one, 1);
}
