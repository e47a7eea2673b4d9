/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How our mutex lies in a pthread_mutex_t.
 *
 * A static initialiser of glibc sets `kind` to one of the four types and all else to zero, which is
 * a free lock here, too. So no mutex is looked up anywhere, and none needs memory beside.
 *
 * `kind` also shows the owner of the implementation. Mutexes that are robust, shared by processes,
 * or with a priority ceiling have the C library's bits for that, and are the C library's. One with
 * priority inheritance has TEK_MUTEX_INHERIT if the chosen kind of lock sleeps and the program is
 * not on user-level threads. Otherwise it is the C library's, too.
 */
#ifndef TEK_PRELOAD_SYNC_MUTEX_H
#define TEK_PRELOAD_SYNC_MUTEX_H

#include "sync/lock.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* mutex.kind. */
enum {
	TEK_MUTEX_TYPE = 3,          /* PTHREAD_MUTEX_NORMAL and so on */
	TEK_MUTEX_INHERIT = 1 << 20, /* ours, with priority inheritance; glibc's bits end before */
};

struct tek_sync_mutex {
	_Atomic uintptr_t owner; /* recursive, error-checking: tek_sync__self(); 0: none */
#if __SIZEOF_POINTER__ == 8
	unsigned int id; /* the same: the owner's ID in the C library, which programs read here */
	atomic_uint process; /* of the lock: forked_lock.h */
	int kind;
	unsigned int count; /* recursive: how often it is locked beyond the first time */
#else
	unsigned int count; /* there is no room for the ID */
	atomic_uint process;
	int kind;
#endif
	struct tek_lock lock;
};

_Static_assert(sizeof(struct tek_sync_mutex) <= sizeof(pthread_mutex_t), "it lies in that");
_Static_assert(_Alignof(struct tek_sync_mutex) <= _Alignof(pthread_mutex_t), "it lies in that");
_Static_assert(offsetof(struct tek_sync_mutex, kind) == offsetof(pthread_mutex_t, __data.__kind),
	       "static initialisers set it");
#if __SIZEOF_POINTER__ == 8
_Static_assert(offsetof(struct tek_sync_mutex, id) == offsetof(pthread_mutex_t, __data.__owner),
	       "programs read it");
#endif

static inline struct tek_sync_mutex *tek_sync__mutex_of(pthread_mutex_t *object)
{
	return (struct tek_sync_mutex *)object;
}

/* The mutex that this lock is in. */
static inline const void *tek_sync__mutex_around(const struct tek_lock *lock)
{
	return (const char *)lock - offsetof(struct tek_sync_mutex, lock);
}

/* The functions of its kind; NULL: it is the C library's. */
const struct tek_lock_kind *tek_sync__mutex_kind(const struct tek_sync_mutex *mutex);

/* pthread_mutex_lock(3) and pthread_mutex_unlock(3) of whosever it is. */
int tek_sync__mutex_lock(pthread_mutex_t *object);
int tek_sync__mutex_unlock(pthread_mutex_t *object);

#endif
