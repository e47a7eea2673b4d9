/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Messages and semaphores of System V. The calls fail with EINTR after any handler: signal(7);
 * and after a signal of the engine's, when they are repeated.
 */
#include "uthread/posix/blocking.h"

#include "base/next.h"
#include "base/until.h"
#include "uthread/posix/aside.h"
#include "uthread/posix/blocked.h"
#include "uthread/posix/interrupt.h"

#include <errno.h>
#include <string.h>
#include <sys/msg.h>

ssize_t tek_ut__msgrcv(int queue, void *message, size_t size, long type, int flags)
{
	for (;;) {
		const struct tek_handlers handlers = tek_ut__handlers_from_here(false);
		ssize_t got = TEK_ASIDE_IF_IT_WOULD_WAIT(
			(tek_ut__cancel_point(),
			 TEK_REAL(msgrcv)(queue, message, size, type, flags | IPC_NOWAIT)),
			!(flags & IPC_NOWAIT) && tek_ut__errno() == ENOMSG,
			TEK_REAL(msgrcv)(queue, message, size, type, flags), TEK_FOR_EVER, false);
		if (got >= 0 || !tek_ut__failed_by_engine(&handlers))
			return got;
	}
}

int tek_ut__msgsnd(int queue, const void *message, size_t size, int flags)
{
	for (;;) {
		const struct tek_handlers handlers = tek_ut__handlers_from_here(false);
		int result = TEK_ASIDE_IF_IT_WOULD_WAIT(
			(tek_ut__cancel_point(),
			 TEK_REAL(msgsnd)(queue, message, size, flags | IPC_NOWAIT)),
			!(flags & IPC_NOWAIT) && tek_ut__errno() == EAGAIN,
			TEK_REAL(msgsnd)(queue, message, size, flags), TEK_FOR_EVER, false);
		if (result == 0 || !tek_ut__failed_by_engine(&handlers))
			return result;
	}
}

enum { MOST_OPERATIONS = 32 }; /* more are rare, and wait at once */

/*
 * Without waiting. All of them are done or none, so a call that succeeds here would have at once.
 */
static int try(int set, const struct sembuf *operations, size_t count)
{
	struct sembuf now[MOST_OPERATIONS];

	if (count > MOST_OPERATIONS)
		return tek_ut__fail(EAGAIN);
	memcpy(now, operations, count * sizeof(now[0]));
	for (size_t i = 0; i < count; i++)
		now[i].sem_flg |= IPC_NOWAIT;
	return TEK_REAL(semop)(set, now, count);
}

/* Whether that has the same result as the call itself, but for the wait. */
static bool can_be_tried(const struct sembuf *operations, size_t count)
{
	bool can = count <= MOST_OPERATIONS;

	for (size_t i = 0; can && i < count; i++)
		can = !(operations[i].sem_flg & IPC_NOWAIT);
	return can;
}

static int call(int set, struct sembuf *operations, size_t count, const struct timespec *deadline)
{
	struct timespec left;

	if (deadline)
		left = tek_ut__time_until(deadline);
	return TEK_REAL(semtimedop)(set, operations, count, deadline ? &left : NULL);
}

int tek_ut__semtimedop(int set, struct sembuf *operations, size_t count,
		       const struct timespec *timeout)
{
	static const struct timespec at_once;
	struct tek_until until = TEK_FOR_EVER;
	struct timespec deadline;

	/* The kernel has to report the error. */
	if (timeout &&
	    (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= 1000000000))
		return TEK_REAL(semtimedop)(set, operations, count, timeout);
	if (timeout) {
		deadline = tek_ut__deadline_in(timeout);
		timeout = &deadline;
	}
	until.at = can_be_tried(operations, count) ? timeout : &at_once;
	for (;;) {
		const struct tek_handlers handlers = tek_ut__handlers_from_here(false);
		int result = TEK_ASIDE_IF_IT_WOULD_WAIT(
			try(set, operations, count), tek_ut__errno() == EAGAIN,
			call(set, operations, count, timeout), until, false);
		if (result == 0 || !tek_ut__failed_by_engine(&handlers))
			return result;
	}
}
