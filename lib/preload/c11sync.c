/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols of threads.h for mutexes and condition variables, on those of pthread.h, in each
 * library that has these.
 */
#include "base/export.h"

#include <errno.h>
#include <pthread.h>
#include <threads.h>

_Static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t), "it is one");
_Static_assert(sizeof(cnd_t) == sizeof(pthread_cond_t), "it is one");

static pthread_mutex_t *mutex_of(mtx_t *mutex)
{
	return (pthread_mutex_t *)mutex;
}

static pthread_cond_t *cond_of(cnd_t *cond)
{
	return (pthread_cond_t *)cond;
}

static int result(int error)
{
	switch (error) {
	case 0:
		return thrd_success;
	case ENOMEM:
		return thrd_nomem;
	case ETIMEDOUT:
		return thrd_timedout;
	case EBUSY:
		return thrd_busy;
	default:
		return thrd_error;
	}
}

TEK_EXPORT int mtx_init(mtx_t *mutex, int type)
{
	if (type & ~(mtx_recursive | mtx_timed))
		return thrd_error;
	*mutex_of(mutex) = type & mtx_recursive
				   ? (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
				   : (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	return thrd_success;
}

TEK_EXPORT void mtx_destroy(mtx_t *mutex)
{
	pthread_mutex_destroy(mutex_of(mutex));
}

TEK_EXPORT int mtx_lock(mtx_t *mutex)
{
	return result(pthread_mutex_lock(mutex_of(mutex)));
}

TEK_EXPORT int mtx_trylock(mtx_t *mutex)
{
	return result(pthread_mutex_trylock(mutex_of(mutex)));
}

TEK_EXPORT int mtx_timedlock(mtx_t *mutex, const struct timespec *time)
{
	return result(pthread_mutex_timedlock(mutex_of(mutex), time));
}

TEK_EXPORT int mtx_unlock(mtx_t *mutex)
{
	return result(pthread_mutex_unlock(mutex_of(mutex)));
}

TEK_EXPORT int cnd_init(cnd_t *cond)
{
	return result(pthread_cond_init(cond_of(cond), NULL));
}

TEK_EXPORT void cnd_destroy(cnd_t *cond)
{
	pthread_cond_destroy(cond_of(cond));
}

TEK_EXPORT int cnd_signal(cnd_t *cond)
{
	return result(pthread_cond_signal(cond_of(cond)));
}

TEK_EXPORT int cnd_broadcast(cnd_t *cond)
{
	return result(pthread_cond_broadcast(cond_of(cond)));
}

TEK_EXPORT int cnd_wait(cnd_t *cond, mtx_t *mutex)
{
	return result(pthread_cond_wait(cond_of(cond), mutex_of(mutex)));
}

TEK_EXPORT int cnd_timedwait(cnd_t *cond, mtx_t *mutex, const struct timespec *time)
{
	return result(pthread_cond_timedwait(cond_of(cond), mutex_of(mutex), time));
}
