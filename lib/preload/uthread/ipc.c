/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The symbols of messages and semaphores of System V; see file.c. */
#include "base/export.h"
#include "base/next.h"
#include "uthread/posix/blocking.h"
#include "uthread/worker.h"

#include <sys/msg.h>

TEK_EXPORT ssize_t msgrcv(int queue, void *message, size_t size, long type, int flags)
{
	return tek_ut__is_uthread() ? tek_ut__msgrcv(queue, message, size, type, flags)
				    : TEK_REAL(msgrcv)(queue, message, size, type, flags);
}

TEK_EXPORT int msgsnd(int queue, const void *message, size_t size, int flags)
{
	return tek_ut__is_uthread() ? tek_ut__msgsnd(queue, message, size, flags)
				    : TEK_REAL(msgsnd)(queue, message, size, flags);
}

TEK_EXPORT int semop(int set, struct sembuf *operations, size_t count)
{
	return tek_ut__is_uthread() ? tek_ut__semtimedop(set, operations, count, NULL)
				    : TEK_REAL(semop)(set, operations, count);
}

TEK_EXPORT int semtimedop(int set, struct sembuf *operations, size_t count,
			  const struct timespec *timeout)
{
	return tek_ut__is_uthread() ? tek_ut__semtimedop(set, operations, count, timeout)
				    : TEK_REAL(semtimedop)(set, operations, count, timeout);
}
