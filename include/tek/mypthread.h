/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tek/mypthread.h - the names of the paper (uthreads, 2.1 and 2.2) on top of tek/uthread.h.
 *
 * As there, the first mypthread_create() makes the calling thread a user-level thread and starts
 * the scheduler.  Which one, and with which quantum, is said by the variable TEK_UTHREAD:
 * "workers=1,sched=mlfq,quantum=5ms" is the paper's machine.  What the functions do and which
 * errors they return is described at those of uthread.h.
 */
#ifndef TEK_MYPTHREAD_H
#define TEK_MYPTHREAD_H

#include <errno.h>
#include <pthread.h>
#include <tek/uthread.h>

typedef tek_uthread_t mypthread_t;
typedef tek_uthread_mutex_t mypthread_mutex_t;

#define MYPTHREAD_MUTEX_INITIALIZER TEK_UTHREAD_MUTEX_INITIALIZER

/* 2.1.1. Of `attributes`, which may be NULL, size of the stack and detach state count. */
static inline int mypthread_create(mypthread_t *thread, const pthread_attr_t *attributes,
				   void *(*routine)(void *), void *argument)
{
	struct tek_uthread_attributes wanted = {0, 0, 0, 0, 0, 0, 0};
	int state = PTHREAD_CREATE_JOINABLE;

	if (attributes) {
		pthread_attr_getstacksize(attributes, &wanted.stack_bytes);
		pthread_attr_getdetachstate(attributes, &state);
		wanted.detached = state == PTHREAD_CREATE_DETACHED;
	}
	return tek_uthread_create(thread, &wanted, routine, argument);
}

/* 2.1.2 */
static inline int mypthread_join(mypthread_t thread, void **result)
{
	return tek_uthread_join(thread, result);
}

/* 2.1.3 */
__attribute__((noreturn)) static inline void mypthread_exit(void *result)
{
	tek_uthread_exit(result);
}

/* 2.1.4 */
static inline int mypthread_yield(void)
{
	tek_uthread_yield();
	return 0;
}

/*
 * 2.2.1. `attributes`, which may be NULL, says the type: normal, recursive or error-checking.
 * Where the program asks for C alone (-std=c11 without _POSIX_C_SOURCE) pthread.h has no types:
 * EINVAL unless it is NULL.
 */
static inline int mypthread_mutex_init(mypthread_mutex_t *mutex,
				       const pthread_mutexattr_t *attributes)
{
	int kind = TEK_UTHREAD_MUTEX_NORMAL;

	if (attributes) {
#if defined(_POSIX_C_SOURCE) && _POSIX_C_SOURCE >= 200809L
		int type;
		int error = pthread_mutexattr_gettype(attributes, &type);
		if (error)
			return error;
		if (type == PTHREAD_MUTEX_RECURSIVE)
			kind = TEK_UTHREAD_MUTEX_RECURSIVE;
		else if (type == PTHREAD_MUTEX_ERRORCHECK)
			kind = TEK_UTHREAD_MUTEX_ERRORCHECK;
#else
		return EINVAL;
#endif
	}
	return tek_uthread_mutex_init(mutex, kind);
}

/* 2.2.2 */
static inline int mypthread_mutex_lock(mypthread_mutex_t *mutex)
{
	return tek_uthread_mutex_lock(mutex);
}

/* 2.2.3 */
static inline int mypthread_mutex_unlock(mypthread_mutex_t *mutex)
{
	return tek_uthread_mutex_unlock(mutex);
}

/* 2.2.4 */
static inline int mypthread_mutex_destroy(mypthread_mutex_t *mutex)
{
	return tek_uthread_mutex_destroy(mutex);
}

#endif
