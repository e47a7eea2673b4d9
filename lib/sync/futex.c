/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/futex.h"

#include "base/futex.h"

#include <errno.h>

int tek_sync__futex_wait_until(atomic_uint *word, unsigned int seen, struct tek_until until)
{
	const int before = errno;
	int operation = FUTEX_WAIT_BITSET_PRIVATE;
	int error = 0;

	if (until.at && !tek__is_time(until.at))
		return EINVAL;
	if (until.at && until.at->tv_sec < 0) /* the kernel knows none before its own beginning */
		return ETIMEDOUT;
	if (until.clock == CLOCK_REALTIME)
		operation |= FUTEX_CLOCK_REALTIME;
	if (syscall(TEK_SYS_FUTEX, word, operation, seen, until.at, NULL, FUTEX_BITSET_MATCH_ANY) !=
		    0 &&
	    errno == ETIMEDOUT)
		error = ETIMEDOUT;
	errno = before;
	return error;
}

void tek_sync__futex_wake(atomic_uint *word, int most)
{
	const int before = errno;

	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, most, NULL, NULL, 0);
	errno = before;
}

/*
 * Headers before Linux 5.14 lack this number. Kernels before 5.14 fail with ENOSYS; their
 * FUTEX_LOCK_PI takes a time of CLOCK_REALTIME only.
 */
#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

/* As futex(2) says, or -1 with errno. */
static long lock_pi(atomic_uint *word, struct tek_until until)
{
	if (!until.at || until.clock == CLOCK_REALTIME)
		return syscall(TEK_SYS_FUTEX, word, FUTEX_LOCK_PI_PRIVATE, 0, until.at);
	return syscall(TEK_SYS_FUTEX, word, FUTEX_LOCK_PI2 | FUTEX_PRIVATE_FLAG, 0, until.at);
}

/* EOVERFLOW and such mean a failure of the kernel's; a waiter's own error is one of these. */
int tek_sync__futex_lock_pi(atomic_uint *word, struct tek_until until)
{
	const int before = errno;
	int error = 0;

	if (until.at && !tek__is_time(until.at))
		return EINVAL;
	if (until.at && until.at->tv_sec < 0)
		return ETIMEDOUT;
	do
		error = lock_pi(word, until) == 0 ? 0 : errno;
	while (error == EINTR || error == EAGAIN);
	errno = before;
	return error;
}

void tek_sync__futex_unlock_pi(atomic_uint *word)
{
	const int before = errno;

	syscall(SYS_futex, word, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0);
	errno = before;
}
