/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The symbols of sockets that may wait; see file.c. */
#include "base/export.h"
#include "base/next.h"
#include "uthread/posix/blocking.h"
#include "uthread/worker.h"

#include <sys/socket.h>

TEK_EXPORT int accept4(int file, struct sockaddr *address, socklen_t *length, int flags)
{
	return tek_ut__is_uthread() ? tek_ut__accept4(file, address, length, flags)
				    : TEK_REAL(accept4)(file, address, length, flags);
}

TEK_EXPORT int accept(int file, struct sockaddr *address, socklen_t *length)
{
	return tek_ut__is_uthread() ? tek_ut__accept4(file, address, length, 0)
				    : TEK_REAL(accept)(file, address, length);
}

TEK_EXPORT int connect(int file, const struct sockaddr *address, socklen_t length)
{
	return tek_ut__is_uthread() ? tek_ut__connect(file, address, length)
				    : TEK_REAL(connect)(file, address, length);
}

int __connect(int file, const struct sockaddr *address, socklen_t length);
TEK_EXPORT int __connect(int file, const struct sockaddr *address, socklen_t length)
{
	return connect(file, address, length);
}

TEK_EXPORT ssize_t recv(int file, void *bytes, size_t size, int flags)
{
	return tek_ut__is_uthread() ? tek_ut__recvfrom(file, bytes, size, flags, NULL, NULL)
				    : TEK_REAL(recv)(file, bytes, size, flags);
}

TEK_EXPORT ssize_t recvfrom(int file, void *bytes, size_t size, int flags, struct sockaddr *address,
			    socklen_t *length)
{
	return tek_ut__is_uthread() ? tek_ut__recvfrom(file, bytes, size, flags, address, length)
				    : TEK_REAL(recvfrom)(file, bytes, size, flags, address, length);
}

TEK_EXPORT ssize_t recvmsg(int file, struct msghdr *message, int flags)
{
	return tek_ut__is_uthread() ? tek_ut__recvmsg(file, message, flags)
				    : TEK_REAL(recvmsg)(file, message, flags);
}

TEK_EXPORT int recvmmsg(int file, struct mmsghdr *messages, unsigned int count, int flags,
			struct timespec *timeout)
{
	return tek_ut__is_uthread() ? tek_ut__recvmmsg(file, messages, count, flags, timeout)
				    : TEK_REAL(recvmmsg)(file, messages, count, flags, timeout);
}

TEK_EXPORT ssize_t send(int file, const void *bytes, size_t size, int flags)
{
	return tek_ut__is_uthread() ? tek_ut__sendto(file, bytes, size, flags, NULL, 0)
				    : TEK_REAL(send)(file, bytes, size, flags);
}

ssize_t __send(int file, const void *bytes, size_t size, int flags);
TEK_EXPORT ssize_t __send(int file, const void *bytes, size_t size, int flags)
{
	return send(file, bytes, size, flags);
}

TEK_EXPORT ssize_t sendto(int file, const void *bytes, size_t size, int flags,
			  const struct sockaddr *address, socklen_t length)
{
	return tek_ut__is_uthread() ? tek_ut__sendto(file, bytes, size, flags, address, length)
				    : TEK_REAL(sendto)(file, bytes, size, flags, address, length);
}

TEK_EXPORT ssize_t sendmsg(int file, const struct msghdr *message, int flags)
{
	return tek_ut__is_uthread() ? tek_ut__sendmsg(file, message, flags)
				    : TEK_REAL(sendmsg)(file, message, flags);
}

TEK_EXPORT int sendmmsg(int file, struct mmsghdr *messages, unsigned int count, int flags)
{
	return tek_ut__is_uthread() ? tek_ut__sendmmsg(file, messages, count, flags)
				    : TEK_REAL(sendmmsg)(file, messages, count, flags);
}

#if defined(__GLIBC__)

/* See __read_chk() in file.c. */

ssize_t __recv_chk(int file, void *bytes, size_t size, size_t room, int flags);
TEK_EXPORT ssize_t __recv_chk(int file, void *bytes, size_t size, size_t room, int flags)
{
	return size > room ? TEK_REAL(__recv_chk)(file, bytes, size, room, flags)
			   : recv(file, bytes, size, flags);
}

ssize_t __recvfrom_chk(int file, void *bytes, size_t size, size_t room, int flags,
		       struct sockaddr *address, socklen_t *length);
TEK_EXPORT ssize_t __recvfrom_chk(int file, void *bytes, size_t size, size_t room, int flags,
				  struct sockaddr *address, socklen_t *length)
{
	return size > room
		       ? TEK_REAL(__recvfrom_chk)(file, bytes, size, room, flags, address, length)
		       : recvfrom(file, bytes, size, flags, address, length);
}

#endif
