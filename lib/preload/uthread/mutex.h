/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How our mutex lies in a pthread_mutex_t. */
#ifndef TEK_PRELOAD_UTHREAD_MUTEX_H
#define TEK_PRELOAD_UTHREAD_MUTEX_H

#include "base/next.h"
#include "uthread/mutex.h"

#include <pthread.h>
#include <stddef.h>

_Static_assert(sizeof(struct tek_mutex) <= sizeof(pthread_mutex_t), "it lies in that");
_Static_assert(_Alignof(struct tek_mutex) <= _Alignof(pthread_mutex_t), "it lies in that");
_Static_assert(offsetof(struct tek_mutex, kind) == offsetof(pthread_mutex_t, __data.__kind),
	       "static initialisers set it");

static inline struct tek_mutex *tek_ut__mutex_of(pthread_mutex_t *object)
{
	return (struct tek_mutex *)object;
}

static inline bool tek_ut__mutex_is_shared(const struct tek_mutex *mutex)
{
	return mutex->kind & TEK_MUTEX_SHARED && mutex->kind > 0;
}

/* Not of a shared one. *waiter: as that of tek_ut__mutex_lock(). */
int tek_ut__posix_mutex_lock(pthread_mutex_t *object, struct tek_mutex_waiter *waiter,
			     struct tek_until until);

#endif
