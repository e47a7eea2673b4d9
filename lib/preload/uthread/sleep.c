/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The symbols that wait for a time or a signal; see file.c. */
#include "base/export.h"
#include "base/next.h"
#include "uthread/posix/blocked.h"
#include "uthread/posix/blocking.h"
#include "uthread/worker.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

TEK_EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
			       struct timespec *left)
{
	return tek_ut__is_uthread() ? tek_ut__clock_nanosleep(clock, flags, time, left)
				    : TEK_REAL(clock_nanosleep)(clock, flags, time, left);
}

TEK_EXPORT int nanosleep(const struct timespec *time, struct timespec *left)
{
	if (!tek_ut__is_uthread())
		return TEK_REAL(nanosleep)(time, left);
	int error = tek_ut__clock_nanosleep(CLOCK_REALTIME, 0, time, left);
	return error ? tek_ut__fail(error) : 0;
}

int __nanosleep(const struct timespec *time, struct timespec *left);
TEK_EXPORT int __nanosleep(const struct timespec *time, struct timespec *left)
{
	return nanosleep(time, left);
}

TEK_EXPORT int usleep(useconds_t us)
{
	const struct timespec time = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
	return tek_ut__is_uthread() ? nanosleep(&time, NULL) : TEK_REAL(usleep)(us);
}

TEK_EXPORT unsigned int sleep(unsigned int seconds)
{
	return tek_ut__is_uthread() ? tek_ut__sleep(seconds) : TEK_REAL(sleep)(seconds);
}

TEK_EXPORT int pause(void)
{
	return tek_ut__is_uthread() ? tek_ut__sigsuspend(NULL) : TEK_REAL(pause)();
}

TEK_EXPORT int sigsuspend(const sigset_t *mask)
{
	return tek_ut__is_uthread() ? tek_ut__sigsuspend(mask) : TEK_REAL(sigsuspend)(mask);
}

int __sigsuspend(const sigset_t *mask);
TEK_EXPORT int __sigsuspend(const sigset_t *mask)
{
	return sigsuspend(mask);
}
