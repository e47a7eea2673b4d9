/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The C library's threads, mutexes and condition variables of threads.h are those of pthread.h. */
#ifndef TEK_PRELOAD_C11_H
#define TEK_PRELOAD_C11_H

#include <errno.h>
#include <pthread.h>
#include <threads.h>

_Static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t), "it is one");
_Static_assert(sizeof(cnd_t) == sizeof(pthread_cond_t), "it is one");

static inline pthread_mutex_t *tek__mutex_of(mtx_t *mutex)
{
	return (pthread_mutex_t *)mutex;
}

static inline pthread_cond_t *tek__cond_of(cnd_t *cond)
{
	return (pthread_cond_t *)cond;
}

/* The result that the C library gives for an error. */
static inline int tek__c11_result(int error)
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

#endif
