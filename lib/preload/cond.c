/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The symbols of condition variables: what a Fast thread waits for at the end of its wait. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include "inherit/cond.h"
#include "base/export.h"
#include "base/next.h"

TEK_EXPORT int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	return tek__cond_waits_here(cond) ? tek__cond_wait(cond, mutex, TEK_FOR_EVER)
					  : TEK_REAL(pthread_cond_wait)(cond, mutex);
}

TEK_EXPORT int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
				      const struct timespec *time)
{
	if (!tek__cond_waits_here(cond))
		return TEK_REAL(pthread_cond_timedwait)(cond, mutex, time);
	return tek__cond_wait(cond, mutex, (struct tek_until){tek__cond_clock(cond), time});
}

TEK_EXPORT int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
				      const struct timespec *time)
{
	if (!tek__clock_is_known(clock) || !tek__cond_waits_here(cond))
		return TEK_REAL(pthread_cond_clockwait)(cond, mutex, clock, time);
	return tek__cond_wait(cond, mutex, (struct tek_until){clock, time});
}

TEK_EXPORT int pthread_cond_signal(pthread_cond_t *cond)
{
	return tek__cond_signal(cond) ? 0 : TEK_REAL(pthread_cond_signal)(cond);
}

TEK_EXPORT int pthread_cond_broadcast(pthread_cond_t *cond)
{
	tek__cond_broadcast(cond);
	return TEK_REAL(pthread_cond_broadcast)(cond);
}
#endif
