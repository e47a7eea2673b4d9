/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols of read-write locks: the holders are lifted while a Fast thread waits.
 *
 * Allocators and sanitizers come here before TEK has started: then the calls go straight on.
 */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include "inherit/rwlock.h"
#include "base/call.h"
#include "base/export.h"
#include "base/next.h"
#include "inherit/mutex.h"

TEK_EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
	return tek__inherit_is_on() ? tek__rwlock_read(lock, TEK_FOR_EVER, TEK_CALL)
				    : TEK_REAL(pthread_rwlock_rdlock)(lock);
}

TEK_EXPORT int pthread_rwlock_tryrdlock(pthread_rwlock_t *lock)
{
	return tek__inherit_is_on() ? tek__rwlock_try_read(lock)
				    : TEK_REAL(pthread_rwlock_tryrdlock)(lock);
}

TEK_EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *lock, const struct timespec *time)
{
	return tek__inherit_is_on()
		       ? tek__rwlock_read(lock, (struct tek_until){CLOCK_REALTIME, time}, TEK_CALL)
		       : TEK_REAL(pthread_rwlock_timedrdlock)(lock, time);
}

TEK_EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *lock, clockid_t clock,
					  const struct timespec *time)
{
	return tek__inherit_is_on() && tek__clock_is_known(clock)
		       ? tek__rwlock_read(lock, (struct tek_until){clock, time}, TEK_CALL)
		       : TEK_REAL(pthread_rwlock_clockrdlock)(lock, clock, time);
}

TEK_EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
	return tek__inherit_is_on() ? tek__rwlock_write(lock, TEK_FOR_EVER, TEK_CALL)
				    : TEK_REAL(pthread_rwlock_wrlock)(lock);
}

TEK_EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *lock, const struct timespec *time)
{
	return tek__inherit_is_on()
		       ? tek__rwlock_write(lock, (struct tek_until){CLOCK_REALTIME, time}, TEK_CALL)
		       : TEK_REAL(pthread_rwlock_timedwrlock)(lock, time);
}

TEK_EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock,
					  const struct timespec *time)
{
	return tek__inherit_is_on() && tek__clock_is_known(clock)
		       ? tek__rwlock_write(lock, (struct tek_until){clock, time}, TEK_CALL)
		       : TEK_REAL(pthread_rwlock_clockwrlock)(lock, clock, time);
}

TEK_EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *lock)
{
	return tek__inherit_is_on() ? tek__rwlock_unlock(lock, TEK_CALL)
				    : TEK_REAL(pthread_rwlock_unlock)(lock);
}
#endif
