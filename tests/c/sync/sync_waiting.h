/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For tests of mutexes and condition variables as an ordinary program has them, which Meson runs
 * with the C library's and with those of libtek-sync.so.  All of it has to hold for each.
 */
#ifndef TESTS_SYNC_WAITING_H
#define TESTS_SYNC_WAITING_H

#include "uthread_posix.h"
#include "watchdog.h"

#include <errno.h>
#include <sched.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int waiting, woken;

static inline int reset(void **state)
{
	(void)state;
	atomic_store(&waiting, 0);
	atomic_store(&woken, 0);
	return 0;
}

static inline void *try_it(void *object)
{
	int error = pthread_mutex_trylock(object);

	if (!error)
		pthread_mutex_unlock(object);
	return (void *)(intptr_t)error;
}

static inline int tried_by_another(pthread_mutex_t *object)
{
	return (int)(intptr_t)result_of(start(try_it, object));
}

#endif
