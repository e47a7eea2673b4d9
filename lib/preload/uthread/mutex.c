/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols of mutexes.  Those of several processes are the C library's: their kind says so, as
 * the C library writes it.
 */
#include "preload/uthread/mutex.h"

#include "base/export.h"
#include "uthread/inherit.h"
#include "uthread/posix/aside.h"
#include "uthread/posix/interrupt.h"

#include <errno.h>
#include <sched.h>

int tek_ut__posix_mutex_lock(pthread_mutex_t *object, struct tek_mutex_waiter *waiter,
			     struct tek_until until)
{
	struct tek_mutex *mutex = tek_ut__mutex_of(object);
	int error;

	/* No cancellation point. */
	while ((error = tek_ut__mutex_lock(mutex, waiter, until, true)) == EINTR)
		tek_ut__interrupted_by_signal();
	return error;
}

/* Whatever is not a normal mutex that is free. */
__attribute__((noinline)) static int lock(pthread_mutex_t *object, struct tek_until until)
{
	struct tek_mutex_waiter waiter;

	tek_ut__mutex_waiter_init(&waiter);
	return tek_ut__posix_mutex_lock(object, &waiter, until);
}

TEK_EXPORT int pthread_mutex_lock(pthread_mutex_t *object)
{
	struct tek_mutex *mutex = tek_ut__mutex_of(object);

	if (__builtin_expect(tek_ut__mutex_lock_quickly(mutex), 1))
		return 0;
	if (tek_ut__mutex_is_shared(mutex))
		return TEK_ASIDE_IF_BUSY(TEK_REAL(pthread_mutex_trylock)(object),
					 TEK_REAL(pthread_mutex_lock)(object), TEK_FOR_EVER);
	return lock(object, TEK_FOR_EVER);
}

TEK_EXPORT int pthread_mutex_unlock(pthread_mutex_t *object)
{
	struct tek_mutex *mutex = tek_ut__mutex_of(object);

	if (__builtin_expect(tek_ut__mutex_unlock_quickly(mutex), 1))
		return 0;
	if (tek_ut__mutex_is_shared(mutex))
		return TEK_REAL(pthread_mutex_unlock)(object);
	return tek_ut__mutex_unlock(mutex);
}

TEK_EXPORT int pthread_mutex_trylock(pthread_mutex_t *object)
{
	struct tek_mutex *mutex = tek_ut__mutex_of(object);

	if (tek_ut__mutex_is_shared(mutex))
		return TEK_REAL(pthread_mutex_trylock)(object);
	return tek_ut__mutex_try(mutex);
}

TEK_EXPORT int pthread_mutex_timedlock(pthread_mutex_t *object, const struct timespec *time)
{
	if (tek_ut__mutex_is_shared(tek_ut__mutex_of(object)))
		return TEK_ASIDE_IF_BUSY(TEK_REAL(pthread_mutex_trylock)(object),
					 TEK_REAL(pthread_mutex_timedlock)(object, time),
					 ((struct tek_until){CLOCK_REALTIME, time}));
	return lock(object, (struct tek_until){CLOCK_REALTIME, time});
}

TEK_EXPORT int pthread_mutex_clocklock(pthread_mutex_t *object, clockid_t clock,
				       const struct timespec *time)
{
	if (tek_ut__mutex_is_shared(tek_ut__mutex_of(object)))
		return TEK_ASIDE_IF_BUSY(TEK_REAL(pthread_mutex_trylock)(object),
					 TEK_REAL(pthread_mutex_clocklock)(object, clock, time),
					 ((struct tek_until){clock, time}));
	if (!tek__clock_is_known(clock))
		return EINVAL;
	return lock(object, (struct tek_until){clock, time});
}

struct attributes {
	int type, shared, robust, protocol, ceiling;
};

static int read_attributes(const pthread_mutexattr_t *object, struct attributes *attributes)
{
	int error = pthread_mutexattr_gettype(object, &attributes->type);

	if (!error)
		error = pthread_mutexattr_getpshared(object, &attributes->shared);
	if (!error)
		error = pthread_mutexattr_getrobust(object, &attributes->robust);
	if (!error)
		error = pthread_mutexattr_getprotocol(object, &attributes->protocol);
	if (!error && attributes->protocol == PTHREAD_PRIO_PROTECT)
		error = pthread_mutexattr_getprioceiling(object, &attributes->ceiling);
	return error;
}

static int kind_of(const struct attributes *attributes)
{
	int kind = attributes->type & TEK_MUTEX_TYPE;

	if (attributes->robust == PTHREAD_MUTEX_ROBUST)
		kind |= TEK_MUTEX_ROBUST;
	if (attributes->protocol == PTHREAD_PRIO_INHERIT)
		kind |= TEK_MUTEX_INHERIT;
	if (attributes->protocol == PTHREAD_PRIO_PROTECT)
		kind |= TEK_MUTEX_PROTECT;
	return kind;
}

TEK_EXPORT int pthread_mutex_init(pthread_mutex_t *object, const pthread_mutexattr_t *attributes)
{
	struct tek_mutex *mutex = tek_ut__mutex_of(object);
	struct attributes wanted = {.type = PTHREAD_MUTEX_DEFAULT};

	if (attributes) {
		int error = read_attributes(attributes, &wanted);
		if (error)
			return error;
	}
	if (wanted.shared == PTHREAD_PROCESS_SHARED)
		return TEK_REAL(pthread_mutex_init)(object, attributes);
	int kind = kind_of(&wanted);
	if (kind & TEK_MUTEX_SPECIAL)
		return tek_ut__mutex_special_init(mutex, kind, wanted.ceiling);
	*mutex = (struct tek_mutex){.kind = kind};
	return 0;
}

TEK_EXPORT int pthread_mutex_destroy(pthread_mutex_t *object)
{
	struct tek_mutex *mutex = tek_ut__mutex_of(object);

	if (tek_ut__mutex_is_shared(mutex))
		return TEK_REAL(pthread_mutex_destroy)(object);
	return tek_ut__mutex_destroy(mutex);
}

TEK_EXPORT int pthread_mutex_consistent(pthread_mutex_t *object)
{
	struct tek_mutex *mutex = tek_ut__mutex_of(object);

	if (tek_ut__mutex_is_shared(mutex))
		return TEK_REAL(pthread_mutex_consistent)(object);
	return tek_ut__mutex_consistent(mutex);
}

static bool has_ceiling(const struct tek_mutex *mutex)
{
	return mutex->kind >= 0 && mutex->kind & TEK_MUTEX_PROTECT;
}

TEK_EXPORT int pthread_mutex_getprioceiling(const pthread_mutex_t *object, int *ceiling)
{
	const struct tek_mutex *mutex = tek_ut__mutex_of((pthread_mutex_t *)object);

	if (tek_ut__mutex_is_shared(mutex))
		return TEK_REAL(pthread_mutex_getprioceiling)(object, ceiling);
	if (!has_ceiling(mutex))
		return EINVAL;
	*ceiling = mutex->more->ceiling;
	return 0;
}

TEK_EXPORT int pthread_mutex_setprioceiling(pthread_mutex_t *object, int ceiling, int *old)
{
	struct tek_mutex *mutex = tek_ut__mutex_of(object);
	struct tek_mutex_waiter waiter;

	if (tek_ut__mutex_is_shared(mutex))
		return TEK_REAL(pthread_mutex_setprioceiling)(object, ceiling, old);
	if (!has_ceiling(mutex) || ceiling < sched_get_priority_min(SCHED_FIFO) ||
	    ceiling > sched_get_priority_max(SCHED_FIFO))
		return EINVAL;
	/* Its owner's priority depends on it: meanwhile the mutex is free, or the caller's. */
	tek_ut__mutex_waiter_init(&waiter);
	int error = tek_ut__posix_mutex_lock(object, &waiter, TEK_FOR_EVER);
	bool held = error == EDEADLK;
	if (error && error != EOWNERDEAD && !held)
		return error;
	*old = mutex->more->ceiling;
	tek_ut__inherit_set_ceiling(tek_ut__own(), mutex, ceiling);
	if (!held)
		tek_ut__mutex_unlock(mutex);
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

int __pthread_mutex_lock(pthread_mutex_t *object);
TEK_EXPORT int __pthread_mutex_lock(pthread_mutex_t *object)
{
	return pthread_mutex_lock(object);
}

int __pthread_mutex_trylock(pthread_mutex_t *object);
TEK_EXPORT int __pthread_mutex_trylock(pthread_mutex_t *object)
{
	return pthread_mutex_trylock(object);
}

int __pthread_mutex_unlock(pthread_mutex_t *object);
TEK_EXPORT int __pthread_mutex_unlock(pthread_mutex_t *object)
{
	return pthread_mutex_unlock(object);
}

/* By its symbol, since pthread.h makes the name another one's. */
int tek_ut__consistent_np(pthread_mutex_t *object) __asm__("pthread_mutex_consistent_np");
TEK_EXPORT int tek_ut__consistent_np(pthread_mutex_t *object)
{
	return pthread_mutex_consistent(object);
}
