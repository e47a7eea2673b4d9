/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols of mutexes that begin and end one: here its implementation is chosen: TEK's or the C
 * library's.
 */
#include "base/export.h"
#include "base/next.h"
#include "preload/sync/mutex.h"
#include "preload/sync/start.h"
#include "sync/forked_lock.h"

#include <errno.h>

/* Of one that was destroyed: as the C library has it, which then refuses it. */
#define DESTROYED (-1)

static bool is_shared(const pthread_mutexattr_t *attributes)
{
	int shared = PTHREAD_PROCESS_PRIVATE;

	pthread_mutexattr_getpshared(attributes, &shared);
	return shared == PTHREAD_PROCESS_SHARED;
}

static bool is_robust(const pthread_mutexattr_t *attributes)
{
	int robust = PTHREAD_MUTEX_STALLED;

	pthread_mutexattr_getrobust(attributes, &robust);
	return robust == PTHREAD_MUTEX_ROBUST;
}

/* The new value of `kind`; -1: it is the C library's. */
static int kind_for(const pthread_mutexattr_t *attributes)
{
	static bool reported_robust, reported_shared, reported_protocol;
	int type = PTHREAD_MUTEX_NORMAL, protocol = PTHREAD_PRIO_NONE;

	if (!tek_sync__sync()->mutex.lock)
		return -1;
	if (!attributes)
		return type;
	if (is_robust(attributes)) {
		tek_sync__left(&reported_robust, "robust mutexes");
		return -1;
	}
	if (is_shared(attributes)) {
		tek_sync__left(&reported_shared, "mutexes of several processes");
		return -1;
	}
	pthread_mutexattr_gettype(attributes, &type);
	pthread_mutexattr_getprotocol(attributes, &protocol);
	if (protocol == PTHREAD_PRIO_INHERIT && tek_sync__sync()->inherit)
		return (type & TEK_MUTEX_TYPE) | TEK_MUTEX_INHERIT;
	if (protocol == PTHREAD_PRIO_NONE)
		return type & TEK_MUTEX_TYPE;
	tek_sync__left(&reported_protocol, "mutexes that lend their priority");
	return -1;
}

TEK_EXPORT int pthread_mutex_init(pthread_mutex_t *object, const pthread_mutexattr_t *attributes)
{
	const int kind = kind_for(attributes);

	if (kind < 0)
		return TEK_REAL(pthread_mutex_init)(object, attributes);
	*tek_sync__mutex_of(object) = (struct tek_sync_mutex){.kind = kind};
	return 0;
}

TEK_EXPORT int pthread_mutex_destroy(pthread_mutex_t *object)
{
	struct tek_sync_mutex *mutex = tek_sync__mutex_of(object);
	const struct tek_lock_kind *kind = tek_sync__mutex_kind(mutex);

	if (!kind)
		return TEK_REAL(pthread_mutex_destroy)(object);
	/* A holder may still use it. No thread accesses a word of a free lock. */
	if (!tek_sync__forked_lock_try(&mutex->lock, &mutex->process, kind))
		return EBUSY;
	tek_sync__forked_unlock(&mutex->lock, &mutex->process, kind);
	mutex->kind = DESTROYED;
	return 0;
}

/* Names that programs of old C libraries know. */
int __pthread_mutex_init(pthread_mutex_t *object, const pthread_mutexattr_t *attributes);
TEK_EXPORT int __pthread_mutex_init(pthread_mutex_t *object, const pthread_mutexattr_t *attributes)
{
	return pthread_mutex_init(object, attributes);
}

int __pthread_mutex_destroy(pthread_mutex_t *object);
TEK_EXPORT int __pthread_mutex_destroy(pthread_mutex_t *object)
{
	return pthread_mutex_destroy(object);
}
