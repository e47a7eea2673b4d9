/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The symbols of mutexes that lock and unlock. */
#include "preload/sync/mutex.h"

#include "base/export.h"
#include "base/next.h"
#include "preload/sync/start.h"
#include "sync/forked_lock.h"
#include "sync/self.h"
#include "sync/waiting.h"

#include <errno.h>
#include <limits.h>

const struct tek_lock_kind *tek_sync__mutex_kind(const struct tek_sync_mutex *mutex)
{
	const struct tek_sync_chosen *chosen = tek_sync__sync();

	if (!chosen->mutex.lock)
		return NULL;
	if ((mutex->kind & ~TEK_MUTEX_TYPE) == 0)
		return &chosen->mutex;
	return (mutex->kind & ~TEK_MUTEX_TYPE) == TEK_MUTEX_INHERIT ? chosen->inherit : NULL;
}

/* ---- types ---- */

/*
 * Only the owner ever finds its own id here, so no order is needed: it sees its own write, and any
 * other thread sees another id.
 */
static bool is_mine(struct tek_sync_mutex *mutex)
{
	return atomic_load_explicit(&mutex->owner, memory_order_relaxed) == tek_sync__self();
}

static void set_owner(struct tek_sync_mutex *mutex, uintptr_t owner)
{
	atomic_store_explicit(&mutex->owner, owner, memory_order_relaxed);
}

static bool has_owner(const struct tek_sync_mutex *mutex)
{
	const int type = mutex->kind & TEK_MUTEX_TYPE;

	return type == PTHREAD_MUTEX_RECURSIVE || type == PTHREAD_MUTEX_ERRORCHECK;
}

/* The caller has it already. */
static int lock_again(struct tek_sync_mutex *mutex)
{
	if ((mutex->kind & TEK_MUTEX_TYPE) != PTHREAD_MUTEX_RECURSIVE)
		return EDEADLK;
	if (mutex->count == UINT_MAX)
		return EAGAIN;
	mutex->count++;
	return 0;
}

/* Where the ID is in the memory behind pthread_self(), for libthread_db: bits, number, offset. */
extern const uint32_t _thread_db_pthread_tid[3];

/*
 * Firefox and Chromium read the thread ID that the C library has for the calling thread: they lock
 * a recursive or error-checking mutex and read __owner.  After a raw clone() it is not gettid().
 */
static void show_id(struct tek_sync_mutex *mutex)
{
#if __SIZEOF_POINTER__ == 8
	const uint32_t(*field)[3] = TEK_REAL(_thread_db_pthread_tid);

	/* pthread_self() of user-level threads is a handle. */
	if (field && !tek_sync__host)
		mutex->id = *(const unsigned int *)((const char *)pthread_self() + (*field)[2]);
#else
	(void)mutex;
#endif
}

static void hide_id(struct tek_sync_mutex *mutex)
{
#if __SIZEOF_POINTER__ == 8
	mutex->id = 0;
#else
	(void)mutex;
#endif
}

static void got(struct tek_sync_mutex *mutex)
{
	if (!has_owner(mutex))
		return;
	set_owner(mutex, tek_sync__self());
	show_id(mutex);
}

static int lock_until(struct tek_sync_mutex *mutex, const struct tek_lock_kind *kind,
		      struct tek_until until)
{
	int error = 0;

	if (has_owner(mutex) && is_mine(mutex))
		return lock_again(mutex);
	if (until.at)
		error = tek_sync__forked_lock_until(&mutex->lock, &mutex->process, kind, until);
	else
		error = tek_sync__forked_lock(&mutex->lock, &mutex->process, kind);
	if (!error)
		got(mutex);
	return error;
}

__attribute__((noinline)) static int lock_other(pthread_mutex_t *object)
{
	struct tek_sync_mutex *mutex = tek_sync__mutex_of(object);
	const struct tek_lock_kind *kind = tek_sync__mutex_kind(mutex);

	return kind ? lock_until(mutex, kind, TEK_FOR_EVER) : TEK_REAL(pthread_mutex_lock)(object);
}

__attribute__((noinline)) static int unlock_other(pthread_mutex_t *object)
{
	struct tek_sync_mutex *mutex = tek_sync__mutex_of(object);
	const struct tek_lock_kind *kind = tek_sync__mutex_kind(mutex);

	if (!kind)
		return TEK_REAL(pthread_mutex_unlock)(object);
	if (has_owner(mutex)) {
		if (!is_mine(mutex))
			return EPERM;
		if (mutex->count) {
			mutex->count--;
			return 0;
		}
		hide_id(mutex);
		set_owner(mutex, 0);
	}
	return tek_sync__forked_unlock(&mutex->lock, &mutex->process, kind);
}

/* ---- symbols ---- */

/* Mostly it is a normal one. */
__attribute__((always_inline)) static inline bool is_normal(const struct tek_sync_mutex *mutex)
{
	return __builtin_expect(mutex->kind == PTHREAD_MUTEX_NORMAL, 1) &&
	       __builtin_expect(tek_sync__chosen.mutex.lock != NULL, 1);
}

int tek_sync__mutex_lock(pthread_mutex_t *object)
{
	struct tek_sync_mutex *mutex = tek_sync__mutex_of(object);

	if (!is_normal(mutex))
		return lock_other(object);
	return tek_sync__forked_lock(&mutex->lock, &mutex->process, &tek_sync__chosen.mutex);
}

int tek_sync__mutex_unlock(pthread_mutex_t *object)
{
	struct tek_sync_mutex *mutex = tek_sync__mutex_of(object);

	if (!is_normal(mutex))
		return unlock_other(object);
	return tek_sync__forked_unlock(&mutex->lock, &mutex->process, &tek_sync__chosen.mutex);
}

TEK_EXPORT int pthread_mutex_lock(pthread_mutex_t *object)
{
	return tek_sync__mutex_lock(object);
}

TEK_EXPORT int pthread_mutex_unlock(pthread_mutex_t *object)
{
	return tek_sync__mutex_unlock(object);
}

TEK_EXPORT int pthread_mutex_trylock(pthread_mutex_t *object)
{
	struct tek_sync_mutex *mutex = tek_sync__mutex_of(object);
	const struct tek_lock_kind *kind = tek_sync__mutex_kind(mutex);

	if (!kind)
		return TEK_REAL(pthread_mutex_trylock)(object);
	if (has_owner(mutex) && is_mine(mutex)) {
		int error = lock_again(mutex);
		return error == EDEADLK ? EBUSY : error;
	}
	if (!tek_sync__forked_lock_try(&mutex->lock, &mutex->process, kind))
		return EBUSY;
	got(mutex);
	return 0;
}

TEK_EXPORT int pthread_mutex_timedlock(pthread_mutex_t *object, const struct timespec *time)
{
	struct tek_sync_mutex *mutex = tek_sync__mutex_of(object);
	const struct tek_lock_kind *kind = tek_sync__mutex_kind(mutex);

	if (!kind)
		return TEK_REAL(pthread_mutex_timedlock)(object, time);
	return lock_until(mutex, kind, (struct tek_until){CLOCK_REALTIME, time});
}

TEK_EXPORT int pthread_mutex_clocklock(pthread_mutex_t *object, clockid_t clock,
				       const struct timespec *time)
{
	struct tek_sync_mutex *mutex = tek_sync__mutex_of(object);
	const struct tek_lock_kind *kind = tek_sync__mutex_kind(mutex);

	if (!kind)
		return TEK_REAL(pthread_mutex_clocklock)(object, clock, time);
	if (!tek__clock_is_known(clock))
		return EINVAL;
	return lock_until(mutex, kind, (struct tek_until){clock, time});
}

/* Names that programs of old C libraries know. */
int __pthread_mutex_lock(pthread_mutex_t *object);
TEK_EXPORT int __pthread_mutex_lock(pthread_mutex_t *object)
{
	return tek_sync__mutex_lock(object);
}

int __pthread_mutex_trylock(pthread_mutex_t *object);
TEK_EXPORT int __pthread_mutex_trylock(pthread_mutex_t *object)
{
	return pthread_mutex_trylock(object);
}

int __pthread_mutex_unlock(pthread_mutex_t *object);
TEK_EXPORT int __pthread_mutex_unlock(pthread_mutex_t *object)
{
	return tek_sync__mutex_unlock(object);
}
