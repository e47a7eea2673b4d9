/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols of threads.h by which threads wait for each other, on those of pthread.h, in each
 * library that has these.
 */
#include "base/export.h"
#include "preload/c11.h"

TEK_EXPORT int mtx_lock(mtx_t *mutex)
{
	return tek__c11_result(pthread_mutex_lock(tek__mutex_of(mutex)));
}

TEK_EXPORT int mtx_timedlock(mtx_t *mutex, const struct timespec *time)
{
	return tek__c11_result(pthread_mutex_timedlock(tek__mutex_of(mutex), time));
}

TEK_EXPORT int mtx_unlock(mtx_t *mutex)
{
	return tek__c11_result(pthread_mutex_unlock(tek__mutex_of(mutex)));
}

TEK_EXPORT int cnd_signal(cnd_t *cond)
{
	return tek__c11_result(pthread_cond_signal(tek__cond_of(cond)));
}

TEK_EXPORT int cnd_broadcast(cnd_t *cond)
{
	return tek__c11_result(pthread_cond_broadcast(tek__cond_of(cond)));
}

TEK_EXPORT int cnd_wait(cnd_t *cond, mtx_t *mutex)
{
	return tek__c11_result(pthread_cond_wait(tek__cond_of(cond), tek__mutex_of(mutex)));
}

TEK_EXPORT int cnd_timedwait(cnd_t *cond, mtx_t *mutex, const struct timespec *time)
{
	return tek__c11_result(
		pthread_cond_timedwait(tek__cond_of(cond), tek__mutex_of(mutex), time));
}
