/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols of read-write locks.  Those of several processes are the C library's, which says so
 * by a flag in them: base/objects.h.
 */
#include "uthread/rwlock.h"
#include "base/export.h"
#include "base/next.h"
#include "uthread/posix/aside.h"
#include "uthread/posix/interrupt.h"
#include "uthread/posix/objects.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

_Static_assert(sizeof(struct tek_rwlock) <= sizeof(pthread_rwlock_t), "it lies in that");
_Static_assert(offsetof(struct tek_rwlock, kind) == offsetof(pthread_rwlock_t, __data.__flags),
	       "static initialisers set it");
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "where is the kind in a word of this byte order?"
#endif

static struct tek_rwlock *of(pthread_rwlock_t *object)
{
	return (struct tek_rwlock *)object;
}

static bool is_shared(const pthread_rwlock_t *object)
{
	return tek__flag_is_set(object, tek_ut__objects()->rwlock_shared);
}

static int lock(pthread_rwlock_t *object, bool writes, struct tek_until until)
{
	int (*function)(struct tek_rwlock *, struct tek_until, bool) = writes ? tek_ut__rwlock_write
									      : tek_ut__rwlock_read;
	int error;

	/* No cancellation point. */
	while ((error = function(of(object), until, true)) == EINTR)
		tek_ut__interrupted_by_signal();
	return error;
}

TEK_EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *object)
{
	if (is_shared(object))
		return TEK_ASIDE_IF_BUSY(TEK_REAL(pthread_rwlock_tryrdlock)(object),
					 TEK_REAL(pthread_rwlock_rdlock)(object), TEK_FOR_EVER);
	return lock(object, false, TEK_FOR_EVER);
}

TEK_EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *object)
{
	if (is_shared(object))
		return TEK_ASIDE_IF_BUSY(TEK_REAL(pthread_rwlock_trywrlock)(object),
					 TEK_REAL(pthread_rwlock_wrlock)(object), TEK_FOR_EVER);
	return lock(object, true, TEK_FOR_EVER);
}

TEK_EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *object, const struct timespec *time)
{
	if (is_shared(object))
		return TEK_ASIDE_IF_BUSY(TEK_REAL(pthread_rwlock_tryrdlock)(object),
					 TEK_REAL(pthread_rwlock_timedrdlock)(object, time),
					 ((struct tek_until){CLOCK_REALTIME, time}));
	return lock(object, false, (struct tek_until){CLOCK_REALTIME, time});
}

TEK_EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *object, const struct timespec *time)
{
	if (is_shared(object))
		return TEK_ASIDE_IF_BUSY(TEK_REAL(pthread_rwlock_trywrlock)(object),
					 TEK_REAL(pthread_rwlock_timedwrlock)(object, time),
					 ((struct tek_until){CLOCK_REALTIME, time}));
	return lock(object, true, (struct tek_until){CLOCK_REALTIME, time});
}

TEK_EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *object, clockid_t clock,
					  const struct timespec *time)
{
	if (is_shared(object))
		return TEK_ASIDE_IF_BUSY(TEK_REAL(pthread_rwlock_tryrdlock)(object),
					 TEK_REAL(pthread_rwlock_clockrdlock)(object, clock, time),
					 ((struct tek_until){clock, time}));
	if (!tek__clock_is_known(clock))
		return EINVAL;
	return lock(object, false, (struct tek_until){clock, time});
}

TEK_EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *object, clockid_t clock,
					  const struct timespec *time)
{
	if (is_shared(object))
		return TEK_ASIDE_IF_BUSY(TEK_REAL(pthread_rwlock_trywrlock)(object),
					 TEK_REAL(pthread_rwlock_clockwrlock)(object, clock, time),
					 ((struct tek_until){clock, time}));
	if (!tek__clock_is_known(clock))
		return EINVAL;
	return lock(object, true, (struct tek_until){clock, time});
}

TEK_EXPORT int pthread_rwlock_tryrdlock(pthread_rwlock_t *object)
{
	if (is_shared(object))
		return TEK_REAL(pthread_rwlock_tryrdlock)(object);
	return tek_ut__rwlock_try_read(of(object));
}

TEK_EXPORT int pthread_rwlock_trywrlock(pthread_rwlock_t *object)
{
	if (is_shared(object))
		return TEK_REAL(pthread_rwlock_trywrlock)(object);
	return tek_ut__rwlock_try_write(of(object));
}

TEK_EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *object)
{
	if (is_shared(object))
		return TEK_REAL(pthread_rwlock_unlock)(object);
	/* The C library does not detect that it is free, and some programs check its result. */
	tek_ut__rwlock_unlock(of(object));
	return 0;
}

TEK_EXPORT int pthread_rwlock_init(pthread_rwlock_t *object, const pthread_rwlockattr_t *attributes)
{
	int shared = PTHREAD_PROCESS_PRIVATE, kind = TEK_RWLOCK_PREFER_READER;

	if (attributes) {
		pthread_rwlockattr_getpshared(attributes, &shared);
		pthread_rwlockattr_getkind_np(attributes, &kind);
	}
	if (shared == PTHREAD_PROCESS_SHARED && !tek_ut__objects()->rwlock_shared.bit)
		return ENOTSUP; /* it would not be recognised */
	if (shared == PTHREAD_PROCESS_SHARED)
		return TEK_REAL(pthread_rwlock_init)(object, attributes);
	memset(object, 0, sizeof(*object)); /* an initialiser need not reach all of a union */
	of(object)->kind = (unsigned char)kind;
	return 0;
}

/* As the C library's, which says nothing about one that is in use. */
TEK_EXPORT int pthread_rwlock_destroy(pthread_rwlock_t *object)
{
	return is_shared(object) ? TEK_REAL(pthread_rwlock_destroy)(object) : 0;
}

/* Names that programs of old C libraries know. */
int __pthread_rwlock_init(pthread_rwlock_t *object, const pthread_rwlockattr_t *attributes);
TEK_EXPORT int __pthread_rwlock_init(pthread_rwlock_t *object,
				     const pthread_rwlockattr_t *attributes)
{
	return pthread_rwlock_init(object, attributes);
}

int __pthread_rwlock_destroy(pthread_rwlock_t *object);
TEK_EXPORT int __pthread_rwlock_destroy(pthread_rwlock_t *object)
{
	return pthread_rwlock_destroy(object);
}

int __pthread_rwlock_rdlock(pthread_rwlock_t *object);
TEK_EXPORT int __pthread_rwlock_rdlock(pthread_rwlock_t *object)
{
	return pthread_rwlock_rdlock(object);
}

int __pthread_rwlock_wrlock(pthread_rwlock_t *object);
TEK_EXPORT int __pthread_rwlock_wrlock(pthread_rwlock_t *object)
{
	return pthread_rwlock_wrlock(object);
}

int __pthread_rwlock_tryrdlock(pthread_rwlock_t *object);
TEK_EXPORT int __pthread_rwlock_tryrdlock(pthread_rwlock_t *object)
{
	return pthread_rwlock_tryrdlock(object);
}

int __pthread_rwlock_trywrlock(pthread_rwlock_t *object);
TEK_EXPORT int __pthread_rwlock_trywrlock(pthread_rwlock_t *object)
{
	return pthread_rwlock_trywrlock(object);
}

int __pthread_rwlock_unlock(pthread_rwlock_t *object);
TEK_EXPORT int __pthread_rwlock_unlock(pthread_rwlock_t *object)
{
	return pthread_rwlock_unlock(object);
}
