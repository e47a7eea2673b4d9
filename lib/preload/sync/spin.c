/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols of spin locks: of the kind that --lock names, where one of 32 bits goes by that name,
 * else of the next to it (sync/spin.h). There is no room to record a lock's implementation, so
 * locks of several processes are ours, too: all of these processes have to run under the same
 * --lock.
 */
#include "base/export.h"
#include "base/next.h"
#include "preload/sync/start.h"

#include <errno.h>
#include <pthread.h>

_Static_assert(sizeof(atomic_uint) == sizeof(pthread_spinlock_t), "it is one");

static atomic_uint *of(pthread_spinlock_t *object)
{
	return (atomic_uint *)object;
}

TEK_EXPORT int pthread_spin_init(pthread_spinlock_t *object, int shared)
{
	if (!tek_sync__sync()->spin)
		return TEK_REAL(pthread_spin_init)(object, shared);
	atomic_store_explicit(of(object), 0, memory_order_relaxed);
	return 0;
}

TEK_EXPORT int pthread_spin_destroy(pthread_spinlock_t *object)
{
	return tek_sync__sync()->spin ? 0 : TEK_REAL(pthread_spin_destroy)(object);
}

TEK_EXPORT int pthread_spin_lock(pthread_spinlock_t *object)
{
	const struct tek_spin_kind *kind = tek_sync__sync()->spin;

	if (!kind)
		return TEK_REAL(pthread_spin_lock)(object);
	kind->lock(of(object));
	return 0;
}

TEK_EXPORT int pthread_spin_trylock(pthread_spinlock_t *object)
{
	const struct tek_spin_kind *kind = tek_sync__sync()->spin;

	if (!kind)
		return TEK_REAL(pthread_spin_trylock)(object);
	return kind->try(of(object)) ? 0 : EBUSY;
}

TEK_EXPORT int pthread_spin_unlock(pthread_spinlock_t *object)
{
	const struct tek_spin_kind *kind = tek_sync__sync()->spin;

	if (!kind)
		return TEK_REAL(pthread_spin_unlock)(object);
	kind->unlock(of(object));
	return 0;
}
