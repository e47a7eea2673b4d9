/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/export.h"
#include "preload/profile/call.h"

TEK_EXPORT int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	TEK_COND_WAIT(REAL(pthread_cond_wait)(cond, mutex));
}

TEK_EXPORT int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
				      const struct timespec *until)
{
	TEK_COND_WAIT(REAL(pthread_cond_timedwait)(cond, mutex, until));
}

TEK_EXPORT int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
				      const struct timespec *until)
{
	TEK_COND_WAIT(REAL(pthread_cond_clockwait)(cond, mutex, clock, until));
}

TEK_EXPORT int pthread_cond_signal(pthread_cond_t *cond)
{
	tek_prof__releases(cond);
	return REAL(pthread_cond_signal)(cond);
}

TEK_EXPORT int pthread_cond_broadcast(pthread_cond_t *cond)
{
	tek_prof__releases(cond);
	return REAL(pthread_cond_broadcast)(cond);
}
