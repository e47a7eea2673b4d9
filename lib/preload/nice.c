/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The calls that set a nice value. The kernel reads the nice value of a thread before it changes
 * the policy, and writes it back: a value that is set meanwhile is lost. Under the lock TEK changes
 * no policy.
 */
#include "base/export.h"
#include "base/real.h"
#include "life/start.h"
#include "threads/process.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

/* A program may set errno before: nice() returns -1 for a nice value, too. */
static bool lock(void)
{
	const int error = errno;
	const bool is_locked = tek__start() && tek__lock();

	errno = error;
	return is_locked;
}

static int unlock(bool is_locked, int result)
{
	const int error = errno;

	if (is_locked)
		tek__unlock();
	errno = error;
	return result;
}

TEK_EXPORT int setpriority(tek_which which, id_t id, int value)
{
	const bool is_locked = lock();

	return unlock(is_locked, tek__real.setpriority(which, id, value));
}

TEK_EXPORT int nice(int increment)
{
	const bool is_locked = lock();

	return unlock(is_locked, tek__real.nice(increment));
}
