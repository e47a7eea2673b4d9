/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols of spin locks. One kind for all, those of several processes too: uthread/spinlock.h.
 */
#include "base/export.h"
#include "uthread/spinlock.h"

#include <errno.h>
#include <pthread.h>

_Static_assert(sizeof(tek_spinlock) == sizeof(pthread_spinlock_t), "it is that");

static tek_spinlock *of(pthread_spinlock_t *object)
{
	return (tek_spinlock *)object;
}

TEK_EXPORT int pthread_spin_init(pthread_spinlock_t *object, int shared)
{
	(void)shared;
	tek_ut__spinlock_unlock(of(object));
	return 0;
}

TEK_EXPORT int pthread_spin_destroy(pthread_spinlock_t *object)
{
	(void)object;
	return 0;
}

TEK_EXPORT int pthread_spin_lock(pthread_spinlock_t *object)
{
	tek_ut__spinlock_lock(of(object));
	return 0;
}

TEK_EXPORT int pthread_spin_trylock(pthread_spinlock_t *object)
{
	return tek_ut__spinlock_try(of(object)) ? 0 : EBUSY;
}

TEK_EXPORT int pthread_spin_unlock(pthread_spinlock_t *object)
{
	tek_ut__spinlock_unlock(of(object));
	return 0;
}
