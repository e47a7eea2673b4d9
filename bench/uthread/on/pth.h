/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* GNU Pth. */
#ifndef UTHREAD_ON_PTH_H
#define UTHREAD_ON_PTH_H

#include <pth.h>

#include <stdlib.h>

#define ON_NAME "Pth"

typedef pth_t on_thread;
typedef pth_mutex_t on_mutex;
typedef pth_cond_t on_cond;

static inline void on_start(void)
{
	if (!pth_init())
		abort();
}

static inline int on_create(on_thread *thread, void *(*routine)(void *), void *argument)
{
	*thread = pth_spawn(PTH_ATTR_DEFAULT, routine, argument);
	return !*thread;
}

static inline void on_join(on_thread *thread)
{
	pth_join(*thread, NULL);
}

static inline void on_yield(void)
{
	pth_yield(NULL);
}

static inline void on_mutex_init(on_mutex *mutex)
{
	pth_mutex_init(mutex);
}

static inline void on_mutex_lock(on_mutex *mutex)
{
	pth_mutex_acquire(mutex, FALSE, NULL);
}

static inline void on_mutex_unlock(on_mutex *mutex)
{
	pth_mutex_release(mutex);
}

static inline void on_cond_init(on_cond *cond)
{
	pth_cond_init(cond);
}

static inline void on_cond_wait(on_cond *cond, on_mutex *mutex)
{
	pth_cond_await(cond, mutex, NULL);
}

static inline void on_cond_signal(on_cond *cond)
{
	pth_cond_notify(cond, FALSE);
}

static inline void on_cond_broadcast(on_cond *cond)
{
	pth_cond_notify(cond, TRUE);
}

#endif
