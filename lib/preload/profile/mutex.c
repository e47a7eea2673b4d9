/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/export.h"
#include "preload/profile/call.h"

#include <errno.h>

TEK_EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	TEK_LOCK(TEK_PROFILE_MUTEX, mutex, REAL(pthread_mutex_trylock)(mutex),
		 REAL(pthread_mutex_lock)(mutex));
}

TEK_EXPORT int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until)
{
	TEK_LOCK_UNTIL(TEK_PROFILE_MUTEX, mutex, CLOCK_REALTIME, until,
		       REAL(pthread_mutex_trylock)(mutex),
		       REAL(pthread_mutex_timedlock)(mutex, until));
}

TEK_EXPORT int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock,
				       const struct timespec *until)
{
	TEK_LOCK_UNTIL(TEK_PROFILE_MUTEX, mutex, clock, until, REAL(pthread_mutex_trylock)(mutex),
		       REAL(pthread_mutex_clocklock)(mutex, clock, until));
}

TEK_EXPORT int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	TEK_TRY(TEK_PROFILE_MUTEX, mutex, REAL(pthread_mutex_trylock)(mutex));
}

TEK_EXPORT int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	TEK_UNLOCK(mutex, REAL(pthread_mutex_unlock)(mutex));
}
