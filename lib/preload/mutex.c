/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols of mutexes: the holder is lifted while a Fast thread waits.
 *
 * Allocators and sanitizers come here before TEK has started: then the calls go straight on.
 */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include "inherit/mutex.h"
#include "base/call.h"
#include "base/export.h"
#include "base/next.h"

/* Each way to wait in a function of its own: the symbols save no registers before it. */
__attribute__((noinline)) static int lock(pthread_mutex_t *mutex, uintptr_t call)
{
	if (!tek__inherit_is_on())
		return TEK_REAL(pthread_mutex_lock)(mutex);
	return tek__mutex_lock(mutex, TEK_FOR_EVER, call);
}

__attribute__((noinline)) static int unlock(pthread_mutex_t *mutex, uintptr_t call)
{
	const struct tek_thread *self = tek__thread_mine;

	if (self && self->member.reasons & TEK_WHY_LIFT)
		return tek__mutex_unlock_lifted(mutex, call);
	return TEK_REAL(pthread_mutex_unlock)(mutex);
}

TEK_EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	return tek__mutex_try(mutex) ? 0 : lock(mutex, TEK_CALL);
}

TEK_EXPORT int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	switch (tek__mutex_release(mutex)) {
	case TEK_RELEASED:
		return 0;
	case TEK_RELEASED_WITH_WAITERS:
		return tek__mutex_wake(mutex);
	case TEK_NOT_RELEASED:
		break;
	}
	return unlock(mutex, TEK_CALL);
}

TEK_EXPORT int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *time)
{
	if (!tek__inherit_is_on())
		return TEK_REAL(pthread_mutex_timedlock)(mutex, time);
	return tek__mutex_lock(mutex, (struct tek_until){CLOCK_REALTIME, time}, TEK_CALL);
}

TEK_EXPORT int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock,
				       const struct timespec *time)
{
	if (!tek__inherit_is_on() || !tek__clock_is_known(clock))
		return TEK_REAL(pthread_mutex_clocklock)(mutex, clock, time);
	return tek__mutex_lock(mutex, (struct tek_until){clock, time}, TEK_CALL);
}
#endif
