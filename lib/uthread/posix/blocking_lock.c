/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Locks of files. The kernel begins these calls again after signals of the engine's, and as handlers say. */
#include "uthread/posix/blocking.h"

#include "preload/uthread/real.h"
#include "uthread/posix/aside.h"
#include "uthread/posix/blocked.h"
#include "uthread/posix/interrupt.h"

#include <errno.h>
#include <sys/file.h>
#include <unistd.h>

static bool is_held_by_another(int error)
{
	return error == EAGAIN || error == EACCES;
}

int tek__flock(int file, int operation)
{
	int result = TEK_REAL(flock)(file, operation | LOCK_NB);

	if (result == 0 || operation & LOCK_NB || tek__errno() != EWOULDBLOCK)
		return result;
	tek__aside_begin();
	result = TEK_REAL(flock)(file, operation);
	tek__aside_end();
	return result;
}

int tek__fcntl_lock(int file, int command, struct flock *lock)
{
	tek__cancel_point();
	int result = TEK_REAL(fcntl)(file, command == F_SETLKW ? F_SETLK : F_OFD_SETLK, lock);
	if (result == 0 || !is_held_by_another(tek__errno()))
		return result;
	tek__aside_begin();
	result = TEK_REAL(fcntl)(file, command, lock);
	tek__aside_end();
	return result;
}

int tek__lockf(int file, off_t size)
{
	tek__cancel_point();
	int result = TEK_REAL(lockf)(file, F_TLOCK, size);
	if (result == 0 || !is_held_by_another(tek__errno()))
		return result;
	tek__aside_begin();
	result = TEK_REAL(lockf)(file, F_LOCK, size);
	tek__aside_end();
	return result;
}
