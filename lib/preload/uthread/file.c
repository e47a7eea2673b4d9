/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols read, write, their kin, and what closes a descriptor; thin: blocking.h has the logic.
 *
 * In all files of this kind: a caller that is no user-level thread gets the C library's function at
 * once. Programs and libraries import the names with two underscores as well.
 */
#include "base/export.h"
#include "base/next.h"
#include "uthread/posix/blocked.h"
#include "uthread/posix/blocking.h"
#include "uthread/posix/interrupt.h"
#include "uthread/worker.h"

#include <sys/uio.h>
#include <unistd.h>

TEK_EXPORT ssize_t read(int file, void *bytes, size_t size)
{
	return tek_ut__is_uthread() ? tek_ut__read(file, bytes, size)
				    : TEK_REAL(read)(file, bytes, size);
}

TEK_EXPORT ssize_t readv(int file, const struct iovec *vector, int count)
{
	return tek_ut__is_uthread() ? tek_ut__readv(file, vector, count)
				    : TEK_REAL(readv)(file, vector, count);
}

TEK_EXPORT ssize_t write(int file, const void *bytes, size_t size)
{
	return tek_ut__is_uthread() ? tek_ut__write(file, bytes, size)
				    : TEK_REAL(write)(file, bytes, size);
}

TEK_EXPORT ssize_t writev(int file, const struct iovec *vector, int count)
{
	return tek_ut__is_uthread() ? tek_ut__writev(file, vector, count)
				    : TEK_REAL(writev)(file, vector, count);
}

ssize_t __read(int file, void *bytes, size_t size);
TEK_EXPORT ssize_t __read(int file, void *bytes, size_t size)
{
	return read(file, bytes, size);
}

ssize_t __write(int file, const void *bytes, size_t size);
TEK_EXPORT ssize_t __write(int file, const void *bytes, size_t size)
{
	return write(file, bytes, size);
}

/* _FORTIFY_SOURCE: `room` is what the compiler knows of the buffer. */
ssize_t __read_chk(int file, void *bytes, size_t size, size_t room);
TEK_EXPORT ssize_t __read_chk(int file, void *bytes, size_t size, size_t room)
{
	/* Too much: the C library's ends the program. */
	return size > room ? TEK_REAL(__read_chk)(file, bytes, size, room)
			   : read(file, bytes, size);
}

/* At an offset of its own: a file that is stored, so the call itself. */

TEK_EXPORT ssize_t pread(int file, void *bytes, size_t size, off_t offset)
{
	tek_ut__cancel_point();
	return TEK_REAL(pread)(file, bytes, size, offset);
}

TEK_EXPORT ssize_t pwrite(int file, const void *bytes, size_t size, off_t offset)
{
	tek_ut__cancel_point();
	return TEK_REAL(pwrite)(file, bytes, size, offset);
}

TEK_EXPORT ssize_t preadv(int file, const struct iovec *vector, int count, off_t offset)
{
	tek_ut__cancel_point();
	return TEK_REAL(preadv)(file, vector, count, offset);
}

TEK_EXPORT ssize_t pwritev(int file, const struct iovec *vector, int count, off_t offset)
{
	tek_ut__cancel_point();
	return TEK_REAL(pwritev)(file, vector, count, offset);
}

#if defined(__GLIBC__)

TEK_EXPORT ssize_t pread64(int file, void *bytes, size_t size, off64_t offset)
{
	tek_ut__cancel_point();
	return TEK_REAL(pread64)(file, bytes, size, offset);
}

TEK_EXPORT ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t offset)
{
	tek_ut__cancel_point();
	return TEK_REAL(pwrite64)(file, bytes, size, offset);
}

TEK_EXPORT ssize_t preadv64(int file, const struct iovec *vector, int count, off64_t offset)
{
	tek_ut__cancel_point();
	return TEK_REAL(preadv64)(file, vector, count, offset);
}

TEK_EXPORT ssize_t pwritev64(int file, const struct iovec *vector, int count, off64_t offset)
{
	tek_ut__cancel_point();
	return TEK_REAL(pwritev64)(file, vector, count, offset);
}

/*
 * With the offset -1 they are readv() and writev(): "the current file offset is used and updated".
 */

TEK_EXPORT ssize_t preadv2(int file, const struct iovec *vector, int count, off_t offset, int flags)
{
	if (offset == -1 && flags == 0)
		return readv(file, vector, count);
	tek_ut__cancel_point();
	return TEK_REAL(preadv2)(file, vector, count, offset, flags);
}

TEK_EXPORT ssize_t pwritev2(int file, const struct iovec *vector, int count, off_t offset,
			    int flags)
{
	if (offset == -1 && flags == 0)
		return writev(file, vector, count);
	tek_ut__cancel_point();
	return TEK_REAL(pwritev2)(file, vector, count, offset, flags);
}

TEK_EXPORT ssize_t preadv64v2(int file, const struct iovec *vector, int count, off64_t offset,
			      int flags)
{
	if (offset == -1 && flags == 0)
		return readv(file, vector, count);
	tek_ut__cancel_point();
	return TEK_REAL(preadv64v2)(file, vector, count, offset, flags);
}

TEK_EXPORT ssize_t pwritev64v2(int file, const struct iovec *vector, int count, off64_t offset,
			       int flags)
{
	if (offset == -1 && flags == 0)
		return writev(file, vector, count);
	tek_ut__cancel_point();
	return TEK_REAL(pwritev64v2)(file, vector, count, offset, flags);
}

#endif
