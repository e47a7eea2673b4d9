/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/export.h"
#include "preload/profile/call.h"

#include <errno.h>

#define TRY_READ REAL(pthread_rwlock_tryrdlock)(lock)
#define TRY_WRITE REAL(pthread_rwlock_trywrlock)(lock)

TEK_EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
	TEK_LOCK(TEK_PROFILE_READ, lock, TRY_READ, REAL(pthread_rwlock_rdlock)(lock));
}

TEK_EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *lock, const struct timespec *until)
{
	TEK_LOCK_UNTIL(TEK_PROFILE_READ, lock, CLOCK_REALTIME, until, TRY_READ,
		       REAL(pthread_rwlock_timedrdlock)(lock, until));
}

TEK_EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *lock, clockid_t clock,
					  const struct timespec *until)
{
	TEK_LOCK_UNTIL(TEK_PROFILE_READ, lock, clock, until, TRY_READ,
		       REAL(pthread_rwlock_clockrdlock)(lock, clock, until));
}

TEK_EXPORT int pthread_rwlock_tryrdlock(pthread_rwlock_t *lock)
{
	TEK_TRY(TEK_PROFILE_READ, lock, TRY_READ);
}

TEK_EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
	TEK_LOCK(TEK_PROFILE_WRITE, lock, TRY_WRITE, REAL(pthread_rwlock_wrlock)(lock));
}

TEK_EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *lock, const struct timespec *until)
{
	TEK_LOCK_UNTIL(TEK_PROFILE_WRITE, lock, CLOCK_REALTIME, until, TRY_WRITE,
		       REAL(pthread_rwlock_timedwrlock)(lock, until));
}

TEK_EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock,
					  const struct timespec *until)
{
	TEK_LOCK_UNTIL(TEK_PROFILE_WRITE, lock, clock, until, TRY_WRITE,
		       REAL(pthread_rwlock_clockwrlock)(lock, clock, until));
}

TEK_EXPORT int pthread_rwlock_trywrlock(pthread_rwlock_t *lock)
{
	TEK_TRY(TEK_PROFILE_WRITE, lock, TRY_WRITE);
}

TEK_EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *lock)
{
	TEK_UNLOCK(lock, REAL(pthread_rwlock_unlock)(lock));
}
