/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * State Threads.  Its condition variables know no mutex, so one is given back and taken again
 * around the wait; no other thread runs in between.
 */
#ifndef UTHREAD_ON_STATE_THREADS_H
#define UTHREAD_ON_STATE_THREADS_H

#include <st.h>

#include <stdlib.h>

#define ON_NAME "State Threads"

typedef st_thread_t on_thread;
typedef st_mutex_t on_mutex;
typedef st_cond_t on_cond;

static inline void on_start(void)
{
	if (st_init())
		abort();
}

static inline int on_create(on_thread *thread, void *(*routine)(void *), void *argument)
{
	*thread = st_thread_create(routine, argument, 1, 0);
	return !*thread;
}

static inline void on_join(on_thread *thread)
{
	st_thread_join(*thread, NULL);
}

static inline void on_yield(void)
{
	st_usleep(0);
}

static inline void on_mutex_init(on_mutex *mutex)
{
	*mutex = st_mutex_new();
}

static inline void on_mutex_lock(on_mutex *mutex)
{
	st_mutex_lock(*mutex);
}

static inline void on_mutex_unlock(on_mutex *mutex)
{
	st_mutex_unlock(*mutex);
}

static inline void on_cond_init(on_cond *cond)
{
	*cond = st_cond_new();
}

static inline void on_cond_wait(on_cond *cond, on_mutex *mutex)
{
	st_mutex_unlock(*mutex);
	st_cond_wait(*cond);
	st_mutex_lock(*mutex);
}

static inline void on_cond_signal(on_cond *cond)
{
	st_cond_signal(*cond);
}

static inline void on_cond_broadcast(on_cond *cond)
{
	st_cond_broadcast(*cond);
}

#endif
