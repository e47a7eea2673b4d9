/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* POSIX threads: the C library's, or those of what is preloaded. */
#ifndef UTHREAD_ON_PTHREAD_H
#define UTHREAD_ON_PTHREAD_H

#include <pthread.h>
#include <sched.h>

#define ON_NAME "pthread"

typedef pthread_t on_thread;
typedef pthread_mutex_t on_mutex;
typedef pthread_cond_t on_cond;

static inline void on_start(void) {}

static inline int on_create(on_thread *thread, void *(*routine)(void *), void *argument)
{
	return pthread_create(thread, NULL, routine, argument);
}

static inline void on_join(on_thread *thread)
{
	pthread_join(*thread, NULL);
}

static inline void on_yield(void)
{
	sched_yield();
}

static inline void on_mutex_init(on_mutex *mutex)
{
	pthread_mutex_init(mutex, NULL);
}

static inline void on_mutex_lock(on_mutex *mutex)
{
	pthread_mutex_lock(mutex);
}

static inline void on_mutex_unlock(on_mutex *mutex)
{
	pthread_mutex_unlock(mutex);
}

static inline void on_cond_init(on_cond *cond)
{
	pthread_cond_init(cond, NULL);
}

static inline void on_cond_wait(on_cond *cond, on_mutex *mutex)
{
	pthread_cond_wait(cond, mutex);
}

static inline void on_cond_signal(on_cond *cond)
{
	pthread_cond_signal(cond);
}

static inline void on_cond_broadcast(on_cond *cond)
{
	pthread_cond_broadcast(cond);
}

#endif
