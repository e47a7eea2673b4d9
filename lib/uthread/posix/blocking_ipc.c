/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Messages and semaphores of System V.  These calls fail with EINTR after any handler: signal(7); and after a signal of
 * the engine's, when they are made again.
 */
#include "uthread/posix/blocking.h"

#include "preload/uthread/real.h"
#include "uthread/posix/aside.h"
#include "uthread/posix/blocked.h"
#include "uthread/posix/interrupt.h"

#include <errno.h>
#include <string.h>
#include <sys/msg.h>

ssize_t tek__msgrcv(int queue, void *message, size_t size, long type, int flags)
{
	tek__cancel_point();
	ssize_t got = TEK_REAL(msgrcv)(queue, message, size, type, flags | IPC_NOWAIT);
	if (got >= 0 || flags & IPC_NOWAIT || tek__errno() != ENOMSG)
		return got;
	for (;;) {
		const struct tek_handlers handlers = tek__handlers_from_here(false);
		tek__aside_begin();
		got = TEK_REAL(msgrcv)(queue, message, size, type, flags);
		tek__aside_end();
		if (got >= 0 || !tek__failed_by_engine(&handlers))
			return got;
		tek__cancel_point();
	}
}

int tek__msgsnd(int queue, const void *message, size_t size, int flags)
{
	tek__cancel_point();
	int result = TEK_REAL(msgsnd)(queue, message, size, flags | IPC_NOWAIT);
	if (result == 0 || flags & IPC_NOWAIT || tek__errno() != EAGAIN)
		return result;
	for (;;) {
		const struct tek_handlers handlers = tek__handlers_from_here(false);
		tek__aside_begin();
		result = TEK_REAL(msgsnd)(queue, message, size, flags);
		tek__aside_end();
		if (result == 0 || !tek__failed_by_engine(&handlers))
			return result;
		tek__cancel_point();
	}
}

/* Without waiting.  All of them are done or none, so what succeeds here would have at once. */
static int try(int set, const struct sembuf *operations, size_t count)
{
	enum { MOST = 32 }; /* more are rare, and wait at once */
	struct sembuf now[MOST];

	if (count > MOST)
		return tek__fail(EAGAIN);
	memcpy(now, operations, count * sizeof(now[0]));
	for (size_t i = 0; i < count; i++)
		now[i].sem_flg |= IPC_NOWAIT;
	return TEK_REAL(semop)(set, now, count);
}

int tek__semtimedop(int set, struct sembuf *operations, size_t count,
		    const struct timespec *timeout)
{
	int result = try(set, operations, count);
	struct timespec deadline, left;

	if (result == 0 || tek__errno() != EAGAIN)
		return result;
	/* The kernel is to say what is wrong with it. */
	const bool limited = timeout && timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 &&
			     timeout->tv_nsec < 1000000000;
	if (limited) {
		deadline = tek__deadline_in(timeout);
		timeout = &left;
	}
	for (;;) {
		const struct tek_handlers handlers = tek__handlers_from_here(false);
		if (limited)
			left = tek__time_until(&deadline);
		tek__aside_begin();
		result = TEK_REAL(semtimedop)(set, operations, count, timeout);
		tek__aside_end();
		if (result == 0 || !tek__failed_by_engine(&handlers))
			return result;
	}
}
