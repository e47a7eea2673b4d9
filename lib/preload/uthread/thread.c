/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols by which threads are made, end, and are waited for. All other calls go to the C
 * library: calls by kernel threads that make threads, and handles of kernel threads.
 */
#include "uthread/posix/thread.h"
#include "base/export.h"
#include "base/next.h"
#include "uthread/posix/exit.h"
#include "uthread/posix/record.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

TEK_EXPORT int pthread_create(pthread_t *handle, const pthread_attr_t *attr,
			      void *(*routine)(void *), void *argument)
{
	if (!tek_ut__posix_self())
		return TEK_REAL(pthread_create)(handle, attr, routine, argument);
	return tek_ut__posix_create(handle, attr, routine, argument, false,
				    __builtin_return_address(0));
}

TEK_EXPORT pthread_t pthread_self(void)
{
	struct tek_uthread *self = tek_ut__here_self();
	return __builtin_expect(self != NULL, 1) ? tek_ut__posix_handle(self)
						 : TEK_REAL(pthread_self)();
}

TEK_EXPORT void pthread_exit(void *result)
{
	if (!tek_ut__posix_self())
		TEK_REAL(pthread_exit)(result);
	tek_ut__posix_exit(result);
}

TEK_EXPORT int pthread_join(pthread_t handle, void **result)
{
	struct tek_posix *posix;

	switch (tek_ut__posix_find(handle, &posix)) {
	case TEK_POSIX_LIVE:
		return tek_ut__posix_join(posix, result, TEK_FOR_EVER);
	case TEK_POSIX_GONE:
		return ESRCH;
	default:
		return TEK_REAL(pthread_join)(handle, result);
	}
}

TEK_EXPORT int pthread_tryjoin_np(pthread_t handle, void **result)
{
	struct tek_posix *posix;

	switch (tek_ut__posix_find(handle, &posix)) {
	case TEK_POSIX_LIVE:
		return tek_ut__posix_try_join(posix, result);
	case TEK_POSIX_GONE:
		return ESRCH;
	default:
		return TEK_REAL(pthread_tryjoin_np)(handle, result);
	}
}

TEK_EXPORT int pthread_timedjoin_np(pthread_t handle, void **result, const struct timespec *time)
{
	struct tek_posix *posix;

	switch (tek_ut__posix_find(handle, &posix)) {
	case TEK_POSIX_LIVE:
		return tek_ut__posix_join(posix, result, (struct tek_until){CLOCK_REALTIME, time});
	case TEK_POSIX_GONE:
		return ESRCH;
	default:
		return TEK_REAL(pthread_timedjoin_np)(handle, result, time);
	}
}

TEK_EXPORT int pthread_clockjoin_np(pthread_t handle, void **result, clockid_t clock,
				    const struct timespec *time)
{
	struct tek_posix *posix;

	if (!tek__clock_is_known(clock))
		return EINVAL;
	switch (tek_ut__posix_find(handle, &posix)) {
	case TEK_POSIX_LIVE:
		return tek_ut__posix_join(posix, result, (struct tek_until){clock, time});
	case TEK_POSIX_GONE:
		return ESRCH;
	default:
		return TEK_REAL(pthread_clockjoin_np)(handle, result, clock, time);
	}
}

TEK_EXPORT int pthread_detach(pthread_t handle)
{
	struct tek_posix *posix;

	switch (tek_ut__posix_find(handle, &posix)) {
	case TEK_POSIX_LIVE:
		return tek_ut__posix_detach(posix);
	case TEK_POSIX_GONE:
		return ESRCH;
	default:
		return TEK_REAL(pthread_detach)(handle);
	}
}

static int yield(void)
{
	if (!tek_ut__posix_self())
		return TEK_REAL(sched_yield)();
	tek_ut__posix_yield();
	return 0;
}

TEK_EXPORT int sched_yield(void)
{
	return tek__context_call(yield);
}

/* An older name, which pthread.h no longer gives its symbol. */
int tek_ut__pthread_yield(void) __asm__("pthread_yield");
TEK_EXPORT int tek_ut__pthread_yield(void)
{
	return sched_yield();
}
