/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* TEK's own interface; the variable TEK_UTHREAD says how the engine is. */
#ifndef UTHREAD_ON_NATIVE_H
#define UTHREAD_ON_NATIVE_H

#include <err.h>
#include <errno.h>
#include <stdlib.h>
#include <tek/uthread.h>

#define ON_NAME "TEK"

typedef tek_uthread_t on_thread;
typedef tek_uthread_mutex_t on_mutex;
typedef tek_uthread_cond_t on_cond;

static inline void on_start(void)
{
	const char *wrong = NULL;

	errno = tek_uthread_start(NULL, &wrong);
	if (wrong)
		errx(EXIT_FAILURE, "TEK_UTHREAD: %s", wrong);
	if (errno)
		err(EXIT_FAILURE, "cannot start the engine");
}

static inline int on_create(on_thread *thread, void *(*routine)(void *), void *argument)
{
	return tek_uthread_create(thread, NULL, routine, argument);
}

static inline void on_join(on_thread *thread)
{
	tek_uthread_join(*thread, NULL);
}

static inline void on_yield(void)
{
	tek_uthread_yield();
}

static inline void on_mutex_init(on_mutex *mutex)
{
	tek_uthread_mutex_init(mutex, TEK_UTHREAD_MUTEX_NORMAL);
}

static inline void on_mutex_lock(on_mutex *mutex)
{
	tek_uthread_mutex_lock(mutex);
}

static inline void on_mutex_unlock(on_mutex *mutex)
{
	tek_uthread_mutex_unlock(mutex);
}

static inline void on_cond_init(on_cond *cond)
{
	tek_uthread_cond_init(cond);
}

static inline void on_cond_wait(on_cond *cond, on_mutex *mutex)
{
	tek_uthread_cond_wait(cond, mutex);
}

static inline void on_cond_signal(on_cond *cond)
{
	tek_uthread_cond_signal(cond);
}

static inline void on_cond_broadcast(on_cond *cond)
{
	tek_uthread_cond_broadcast(cond);
}

#endif
