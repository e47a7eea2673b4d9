/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The functions of tek/uthread.h about synchronisation objects and keys. */
#include "base/export.h"
#include "uthread/barrier.h"
#include "uthread/cond.h"
#include "uthread/key.h"
#include "uthread/mutex.h"
#include "uthread/once.h"
#include "uthread/rwlock.h"
#include "uthread/semaphore.h"

#include <errno.h>
#include <tek/uthread.h>

/* The engine's objects lie in the header's. */
#define LIES_IN(ours, theirs) \
	_Static_assert(sizeof(ours) <= sizeof(theirs) && _Alignof(ours) <= _Alignof(theirs), \
		       "it lies in that")
LIES_IN(struct tek_mutex, tek_uthread_mutex_t);
LIES_IN(struct tek_cond, tek_uthread_cond_t);
LIES_IN(struct tek_rwlock, tek_uthread_rwlock_t);
LIES_IN(struct tek_barrier, tek_uthread_barrier_t);
LIES_IN(struct tek_semaphore, tek_uthread_semaphore_t);
LIES_IN(atomic_int, tek_uthread_once_t);
_Static_assert(offsetof(struct tek_mutex, kind) == offsetof(tek_uthread_mutex_t, kind_),
	       "static initialisers set it");
_Static_assert((int)TEK_UTHREAD_MUTEX_ROBUST == (int)TEK_MUTEX_ROBUST &&
		       (int)TEK_UTHREAD_MUTEX_INHERIT == (int)TEK_MUTEX_INHERIT,
	       "the kinds are the same");

static struct tek_until until(const struct timespec *deadline)
{
	return (struct tek_until){CLOCK_MONOTONIC, deadline};
}

/* ---- mutexes ---- */

static struct tek_mutex *mutex_of(tek_uthread_mutex_t *object)
{
	return (struct tek_mutex *)object;
}

TEK_EXPORT int tek_uthread_mutex_init(tek_uthread_mutex_t *object, int kind)
{
	if (kind & ~(TEK_MUTEX_TYPE | TEK_MUTEX_ROBUST | TEK_MUTEX_INHERIT) ||
	    (kind & TEK_MUTEX_TYPE) == TEK_MUTEX_ADAPTIVE)
		return EINVAL;
	if (kind & TEK_MUTEX_SPECIAL)
		return tek_ut__mutex_special_init(mutex_of(object), kind, 0);
	*mutex_of(object) = (struct tek_mutex){.kind = kind};
	return 0;
}

TEK_EXPORT int tek_uthread_mutex_destroy(tek_uthread_mutex_t *object)
{
	return tek_ut__mutex_destroy(mutex_of(object));
}

/* For all but a free normal mutex. */
__attribute__((noinline)) static int lock(struct tek_mutex *mutex, const struct timespec *deadline)
{
	struct tek_mutex_waiter waiter;

	tek_ut__mutex_waiter_init(&waiter);
	return tek_ut__mutex_lock(mutex, &waiter, until(deadline), false);
}

TEK_EXPORT int tek_uthread_mutex_lock(tek_uthread_mutex_t *object)
{
	struct tek_mutex *mutex = mutex_of(object);

	return __builtin_expect(tek_ut__mutex_lock_quickly(mutex), 1) ? 0 : lock(mutex, NULL);
}

TEK_EXPORT int tek_uthread_mutex_trylock(tek_uthread_mutex_t *object)
{
	return tek_ut__mutex_try(mutex_of(object));
}

TEK_EXPORT int tek_uthread_mutex_lock_until(tek_uthread_mutex_t *object,
					    const struct timespec *deadline)
{
	return lock(mutex_of(object), deadline);
}

TEK_EXPORT int tek_uthread_mutex_unlock(tek_uthread_mutex_t *object)
{
	struct tek_mutex *mutex = mutex_of(object);

	return __builtin_expect(tek_ut__mutex_unlock_quickly(mutex), 1)
		       ? 0
		       : tek_ut__mutex_unlock(mutex);
}

TEK_EXPORT int tek_uthread_mutex_consistent(tek_uthread_mutex_t *object)
{
	return tek_ut__mutex_consistent(mutex_of(object));
}

/* ---- condition variables ---- */

static struct tek_cond *cond_of(tek_uthread_cond_t *object)
{
	return (struct tek_cond *)object;
}

TEK_EXPORT int tek_uthread_cond_init(tek_uthread_cond_t *object)
{
	*cond_of(object) = (struct tek_cond){.guard = 0};
	return 0;
}

TEK_EXPORT int tek_uthread_cond_destroy(tek_uthread_cond_t *object)
{
	return tek_ut__cond_destroy(cond_of(object));
}

/* Inlined into both of its callers: one has no deadline. */
__attribute__((always_inline)) static inline int
wait(tek_uthread_cond_t *object, struct tek_mutex *mutex, const struct timespec *deadline)
{
	struct tek_cond_waiter waiter;

	tek_ut__cond_waiter_init(&waiter, mutex);
	int result = tek_ut__cond_wait(cond_of(object), &waiter, until(deadline), false);
	if (result && result != ETIMEDOUT)
		return result;
	if (tek_ut__cond_lock_quickly(&waiter))
		return result;
	int error = tek_ut__mutex_lock(mutex, &waiter.of_mutex, TEK_FOR_EVER, false);
	return error ? error : result;
}

TEK_EXPORT int tek_uthread_cond_wait(tek_uthread_cond_t *object, tek_uthread_mutex_t *mutex)
{
	return wait(object, mutex_of(mutex), NULL);
}

TEK_EXPORT int tek_uthread_cond_wait_until(tek_uthread_cond_t *object, tek_uthread_mutex_t *mutex,
					   const struct timespec *deadline)
{
	return wait(object, mutex_of(mutex), deadline);
}

TEK_EXPORT int tek_uthread_cond_signal(tek_uthread_cond_t *object)
{
	tek_ut__cond_signal(cond_of(object));
	return 0;
}

TEK_EXPORT int tek_uthread_cond_broadcast(tek_uthread_cond_t *object)
{
	tek_ut__cond_broadcast(cond_of(object));
	return 0;
}

/* ---- read-write locks ---- */

static struct tek_rwlock *rwlock_of(tek_uthread_rwlock_t *object)
{
	return (struct tek_rwlock *)object;
}

TEK_EXPORT int tek_uthread_rwlock_init(tek_uthread_rwlock_t *object, int kind)
{
	if (kind != TEK_RWLOCK_PREFER_READER && kind != TEK_RWLOCK_PREFER_WRITER)
		return EINVAL;
	*rwlock_of(object) = (struct tek_rwlock){.kind = (unsigned char)kind};
	return 0;
}

TEK_EXPORT int tek_uthread_rwlock_destroy(tek_uthread_rwlock_t *object)
{
	return tek_ut__rwlock_is_used(rwlock_of(object)) ? EBUSY : 0;
}

TEK_EXPORT int tek_uthread_rwlock_rdlock(tek_uthread_rwlock_t *object)
{
	return tek_ut__rwlock_read(rwlock_of(object), TEK_FOR_EVER, false);
}

TEK_EXPORT int tek_uthread_rwlock_tryrdlock(tek_uthread_rwlock_t *object)
{
	return tek_ut__rwlock_try_read(rwlock_of(object));
}

TEK_EXPORT int tek_uthread_rwlock_rdlock_until(tek_uthread_rwlock_t *object,
					       const struct timespec *deadline)
{
	return tek_ut__rwlock_read(rwlock_of(object), until(deadline), false);
}

TEK_EXPORT int tek_uthread_rwlock_wrlock(tek_uthread_rwlock_t *object)
{
	return tek_ut__rwlock_write(rwlock_of(object), TEK_FOR_EVER, false);
}

TEK_EXPORT int tek_uthread_rwlock_trywrlock(tek_uthread_rwlock_t *object)
{
	return tek_ut__rwlock_try_write(rwlock_of(object));
}

TEK_EXPORT int tek_uthread_rwlock_wrlock_until(tek_uthread_rwlock_t *object,
					       const struct timespec *deadline)
{
	return tek_ut__rwlock_write(rwlock_of(object), until(deadline), false);
}

TEK_EXPORT int tek_uthread_rwlock_unlock(tek_uthread_rwlock_t *object)
{
	return tek_ut__rwlock_unlock(rwlock_of(object));
}

/* ---- barriers ---- */

static struct tek_barrier *barrier_of(tek_uthread_barrier_t *object)
{
	return (struct tek_barrier *)object;
}

TEK_EXPORT int tek_uthread_barrier_init(tek_uthread_barrier_t *object, unsigned int count)
{
	if (count == 0 || count > TEK_BARRIER_MAX)
		return EINVAL;
	*barrier_of(object) = (struct tek_barrier){.count = count};
	return 0;
}

TEK_EXPORT int tek_uthread_barrier_destroy(tek_uthread_barrier_t *object)
{
	return tek_ut__barrier_is_used(barrier_of(object)) ? EBUSY : 0;
}

TEK_EXPORT int tek_uthread_barrier_wait(tek_uthread_barrier_t *object)
{
	struct tek_waiter waiter;
	return tek_ut__barrier_wait(barrier_of(object), &waiter, false);
}

/* ---- semaphores ---- */

static struct tek_semaphore *semaphore_of(tek_uthread_semaphore_t *object)
{
	return (struct tek_semaphore *)object;
}

TEK_EXPORT int tek_uthread_semaphore_init(tek_uthread_semaphore_t *object, unsigned int value)
{
	if (value > TEK_SEM_VALUE_MAX)
		return EINVAL;
	*semaphore_of(object) = (struct tek_semaphore){.word = value};
	return 0;
}

TEK_EXPORT int tek_uthread_semaphore_destroy(tek_uthread_semaphore_t *object)
{
	return tek_ut__semaphore_is_used(semaphore_of(object)) ? EBUSY : 0;
}

TEK_EXPORT int tek_uthread_semaphore_wait(tek_uthread_semaphore_t *object)
{
	return tek_ut__semaphore_wait(semaphore_of(object), TEK_FOR_EVER, false);
}

TEK_EXPORT int tek_uthread_semaphore_trywait(tek_uthread_semaphore_t *object)
{
	return tek_ut__semaphore_try(semaphore_of(object));
}

TEK_EXPORT int tek_uthread_semaphore_wait_until(tek_uthread_semaphore_t *object,
						const struct timespec *deadline)
{
	return tek_ut__semaphore_wait(semaphore_of(object), until(deadline), false);
}

TEK_EXPORT int tek_uthread_semaphore_post(tek_uthread_semaphore_t *object)
{
	return tek_ut__semaphore_post(semaphore_of(object));
}

TEK_EXPORT int tek_uthread_semaphore_value(tek_uthread_semaphore_t *object)
{
	return tek_ut__semaphore_value(semaphore_of(object));
}

/* ---- once, keys ---- */

TEK_EXPORT int tek_uthread_once(tek_uthread_once_t *object, void (*routine)(void))
{
	atomic_int *control = (atomic_int *)object;

	if (!tek_ut__once_is_done(control))
		tek_ut__once(control, routine);
	return 0;
}

TEK_EXPORT int tek_uthread_key_create(tek_uthread_key_t *key, void (*destructor)(void *))
{
	return tek_ut__key_create(key, destructor);
}

TEK_EXPORT int tek_uthread_key_delete(tek_uthread_key_t key)
{
	return tek_ut__key_delete(key);
}

TEK_EXPORT void *tek_uthread_key_get(tek_uthread_key_t key)
{
	return tek_ut__key_get(key);
}

TEK_EXPORT int tek_uthread_key_set(tek_uthread_key_t key, const void *value)
{
	return tek_ut__key_set(key, (void *)value);
}
