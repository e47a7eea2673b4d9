/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The functions of threads.h: the C library's do not pass by those of pthread.h. */
#include "base/export.h"
#include "preload/profile/call.h"

#include <errno.h>

#define TRY REAL(mtx_trylock)(mutex)

TEK_EXPORT int mtx_lock(mtx_t *mutex)
{
	TEK_LOCK(TEK_PROFILE_MUTEX, mutex, TRY, REAL(mtx_lock)(mutex));
}

TEK_EXPORT int mtx_timedlock(mtx_t *mutex, const struct timespec *until)
{
	TEK_LOCK_UNTIL(TEK_PROFILE_MUTEX, mutex, CLOCK_REALTIME, until, TRY,
		       REAL(mtx_timedlock)(mutex, until));
}

TEK_EXPORT int mtx_trylock(mtx_t *mutex)
{
	TEK_TRY(TEK_PROFILE_MUTEX, mutex, TRY);
}

TEK_EXPORT int mtx_unlock(mtx_t *mutex)
{
	TEK_UNLOCK(mutex, REAL(mtx_unlock)(mutex));
}

TEK_EXPORT int cnd_wait(cnd_t *cond, mtx_t *mutex)
{
	TEK_COND_WAIT(REAL(cnd_wait)(cond, mutex));
}

TEK_EXPORT int cnd_timedwait(cnd_t *cond, mtx_t *mutex, const struct timespec *until)
{
	TEK_COND_WAIT(REAL(cnd_timedwait)(cond, mutex, until));
}

TEK_EXPORT int cnd_signal(cnd_t *cond)
{
	tek_prof__releases(cond);
	return REAL(cnd_signal)(cond);
}

TEK_EXPORT int cnd_broadcast(cnd_t *cond)
{
	tek_prof__releases(cond);
	return REAL(cnd_broadcast)(cond);
}

TEK_IDLE(int, thrd_sleep, (const struct timespec *time, struct timespec *left), (time, left))
