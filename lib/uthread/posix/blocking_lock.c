/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Locks of files. The kernel restarts these calls after signals of the engine's, and as handlers
 * request.
 */
#include "uthread/posix/blocking.h"

#include "base/next.h"
#include "uthread/posix/aside.h"
#include "uthread/posix/blocked.h"
#include "uthread/posix/interrupt.h"

#include <errno.h>
#include <sys/file.h>
#include <unistd.h>

static bool is_held_by_another(void)
{
	const int error = tek_ut__errno();

	return error == EAGAIN || error == EACCES;
}

int tek_ut__flock(int file, int operation)
{
	return TEK_ASIDE_IF_IT_WOULD_WAIT(TEK_REAL(flock)(file, operation | LOCK_NB),
					  !(operation & LOCK_NB) && tek_ut__errno() == EWOULDBLOCK,
					  TEK_REAL(flock)(file, operation), TEK_FOR_EVER, true);
}

int tek_ut__fcntl_lock(int file, int command, struct flock *lock)
{
	const int attempt = command == F_SETLKW ? F_SETLK : F_OFD_SETLK;

	return TEK_ASIDE_IF_IT_WOULD_WAIT(
		(tek_ut__cancel_point(), TEK_REAL(fcntl)(file, attempt, lock)),
		is_held_by_another(), TEK_REAL(fcntl)(file, command, lock), TEK_FOR_EVER, true);
}

int tek_ut__lockf(int file, off_t size)
{
	return TEK_ASIDE_IF_IT_WOULD_WAIT(
		(tek_ut__cancel_point(), TEK_REAL(lockf)(file, F_TLOCK, size)),
		is_held_by_another(), TEK_REAL(lockf)(file, F_LOCK, size), TEK_FOR_EVER, true);
}
