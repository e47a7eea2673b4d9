/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The other symbols of threads.h for mutexes and condition variables, in each library that has
 * objects of its own.
 */
#include "base/export.h"
#include "preload/c11.h"

TEK_EXPORT int mtx_init(mtx_t *mutex, int type)
{
	if (type & ~(mtx_recursive | mtx_timed))
		return thrd_error;
	*tek__mutex_of(mutex) = type & mtx_recursive
					? (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
					: (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	return thrd_success;
}

TEK_EXPORT void mtx_destroy(mtx_t *mutex)
{
	pthread_mutex_destroy(tek__mutex_of(mutex));
}

TEK_EXPORT int mtx_trylock(mtx_t *mutex)
{
	return tek__c11_result(pthread_mutex_trylock(tek__mutex_of(mutex)));
}

TEK_EXPORT int cnd_init(cnd_t *cond)
{
	return tek__c11_result(pthread_cond_init(tek__cond_of(cond), NULL));
}

TEK_EXPORT void cnd_destroy(cnd_t *cond)
{
	pthread_cond_destroy(tek__cond_of(cond));
}
