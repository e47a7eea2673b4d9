/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols of read-write locks.  Those of several processes stay the C library's, which says
 * so by a flag in them (base/objects.h); so do all where no kind was chosen.
 */
#include "base/export.h"
#include "base/next.h"
#include "preload/sync/objects.h"
#include "preload/sync/start.h"
#include "sync/forked.h"
#include "sync/self.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

_Static_assert(sizeof(struct tek_sync_rwlock) <= sizeof(pthread_rwlock_t) &&
		       _Alignof(struct tek_sync_rwlock) <= _Alignof(pthread_rwlock_t),
	       "it lies in that");
_Static_assert(offsetof(struct tek_sync_rwlock, prefers) ==
		       offsetof(pthread_rwlock_t, __data.__flags),
	       "static initialisers set it");
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "where is the kind in a word of this byte order?"
#endif

static struct tek_sync_rwlock *of(pthread_rwlock_t *object)
{
	return (struct tek_sync_rwlock *)object;
}

__attribute__((noinline)) static void adopt(struct tek_sync_rwlock *lock,
					    const struct tek_rwlock_kind *kind)
{
	if (!tek_sync__process_claim(&lock->process))
		return;
	kind->adopt(lock, atomic_load_explicit(&lock->writer, memory_order_relaxed) != 0);
	tek_sync__process_claimed(&lock->process);
}

/* NULL: it is the C library's. */
static inline const struct tek_rwlock_kind *kind_of(pthread_rwlock_t *object)
{
	const struct tek_sync_chosen *chosen = tek_sync__sync();

	if (!chosen->rwlock.name || tek__flag_is_set(object, tek_sync__objects()->rwlock_shared))
		return NULL;
	if (__builtin_expect(!tek_sync__process_is_ours(&of(object)->process), 0))
		adopt(of(object), &chosen->rwlock);
	return &chosen->rwlock;
}

/* Only the writer himself ever finds himself there, so no order is needed. */
static inline bool is_writer(struct tek_sync_rwlock *lock)
{
	return atomic_load_explicit(&lock->writer, memory_order_relaxed) == tek_sync__self();
}

static inline void set_writer(struct tek_sync_rwlock *lock, uintptr_t writer)
{
	atomic_store_explicit(&lock->writer, writer, memory_order_relaxed);
}

static int read_until(const struct tek_rwlock_kind *kind, struct tek_sync_rwlock *lock,
		      struct tek_until until)
{
	if (kind->try_read(lock))
		return 0;
	return is_writer(lock) ? EDEADLK : kind->read_until(lock, until);
}

static int write_until(const struct tek_rwlock_kind *kind, struct tek_sync_rwlock *lock,
		       struct tek_until until)
{
	int error = 0;

	if (!kind->try_write(lock))
		error = is_writer(lock) ? EDEADLK : kind->write_until(lock, until);
	if (!error)
		set_writer(lock, tek_sync__self());
	return error;
}

TEK_EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *object)
{
	const struct tek_rwlock_kind *kind = kind_of(object);

	return kind ? read_until(kind, of(object), TEK_FOR_EVER)
		    : TEK_REAL(pthread_rwlock_rdlock)(object);
}

TEK_EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *object)
{
	const struct tek_rwlock_kind *kind = kind_of(object);

	return kind ? write_until(kind, of(object), TEK_FOR_EVER)
		    : TEK_REAL(pthread_rwlock_wrlock)(object);
}

TEK_EXPORT int pthread_rwlock_tryrdlock(pthread_rwlock_t *object)
{
	const struct tek_rwlock_kind *kind = kind_of(object);

	if (!kind)
		return TEK_REAL(pthread_rwlock_tryrdlock)(object);
	return kind->try_read(of(object)) ? 0 : EBUSY;
}

TEK_EXPORT int pthread_rwlock_trywrlock(pthread_rwlock_t *object)
{
	const struct tek_rwlock_kind *kind = kind_of(object);

	if (!kind)
		return TEK_REAL(pthread_rwlock_trywrlock)(object);
	if (!kind->try_write(of(object)))
		return EBUSY;
	set_writer(of(object), tek_sync__self());
	return 0;
}

TEK_EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *object, const struct timespec *time)
{
	const struct tek_rwlock_kind *kind = kind_of(object);

	return kind ? read_until(kind, of(object), (struct tek_until){CLOCK_REALTIME, time})
		    : TEK_REAL(pthread_rwlock_timedrdlock)(object, time);
}

TEK_EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *object, const struct timespec *time)
{
	const struct tek_rwlock_kind *kind = kind_of(object);

	return kind ? write_until(kind, of(object), (struct tek_until){CLOCK_REALTIME, time})
		    : TEK_REAL(pthread_rwlock_timedwrlock)(object, time);
}

TEK_EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *object, clockid_t clock,
					  const struct timespec *time)
{
	const struct tek_rwlock_kind *kind = kind_of(object);

	if (!kind)
		return TEK_REAL(pthread_rwlock_clockrdlock)(object, clock, time);
	if (!tek__clock_is_known(clock))
		return EINVAL;
	return read_until(kind, of(object), (struct tek_until){clock, time});
}

TEK_EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *object, clockid_t clock,
					  const struct timespec *time)
{
	const struct tek_rwlock_kind *kind = kind_of(object);

	if (!kind)
		return TEK_REAL(pthread_rwlock_clockwrlock)(object, clock, time);
	if (!tek__clock_is_known(clock))
		return EINVAL;
	return write_until(kind, of(object), (struct tek_until){clock, time});
}

TEK_EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *object)
{
	const struct tek_rwlock_kind *kind = kind_of(object);
	struct tek_sync_rwlock *lock = of(object);

	if (!kind)
		return TEK_REAL(pthread_rwlock_unlock)(object);
	/*
	 * A read holder has acquired the last writer's store here, which records that no thread
	 * writes.
	 */
	if (atomic_load_explicit(&lock->writer, memory_order_relaxed)) {
		set_writer(lock, 0);
		kind->unlock_write(lock);
	} else {
		kind->unlock_read(lock);
	}
	return 0;
}

TEK_EXPORT int pthread_rwlock_init(pthread_rwlock_t *object, const pthread_rwlockattr_t *attributes)
{
	int shared = PTHREAD_PROCESS_PRIVATE, prefers = TEK_RWLOCK_READERS;
	static bool reported;

	if (attributes) {
		pthread_rwlockattr_getpshared(attributes, &shared);
		pthread_rwlockattr_getkind_np(attributes, &prefers);
	}
	if (!tek_sync__sync()->rwlock.name)
		return TEK_REAL(pthread_rwlock_init)(object, attributes);
	if (shared == PTHREAD_PROCESS_SHARED) {
		tek_sync__left(&reported, "read-write locks of several processes");
		return TEK_REAL(pthread_rwlock_init)(object, attributes);
	}
	memset(object, 0, sizeof(*object)); /* an initialiser need not reach all of a union */
	of(object)->prefers = (unsigned char)prefers;
	return 0;
}

/* As the C library's, which says nothing about one that is in use. */
TEK_EXPORT int pthread_rwlock_destroy(pthread_rwlock_t *object)
{
	return kind_of(object) ? 0 : TEK_REAL(pthread_rwlock_destroy)(object);
}

/* Names that programs of old C libraries know. */
#define OLD_NAME(name) \
	int __##name(pthread_rwlock_t *object); \
	TEK_EXPORT int __##name(pthread_rwlock_t *object) \
	{ \
		return name(object); \
	}
OLD_NAME(pthread_rwlock_destroy)
OLD_NAME(pthread_rwlock_rdlock)
OLD_NAME(pthread_rwlock_wrlock)
OLD_NAME(pthread_rwlock_tryrdlock)
OLD_NAME(pthread_rwlock_trywrlock)
OLD_NAME(pthread_rwlock_unlock)

int __pthread_rwlock_init(pthread_rwlock_t *object, const pthread_rwlockattr_t *attributes);
TEK_EXPORT int __pthread_rwlock_init(pthread_rwlock_t *object,
				     const pthread_rwlockattr_t *attributes)
{
	return pthread_rwlock_init(object, attributes);
}
