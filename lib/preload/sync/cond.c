/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols of condition variables. Two flags are where the C library has them
 * (base/objects.h): one marks those of several processes, which stay the C library's; the other
 * one marks CLOCK_MONOTONIC.
 *
 * All other ones are ours where mutexes are, with any mutex: that is unlocked and locked by its own
 * functions. The C library's condition variables know its own mutexes only. So a condition variable
 * of several processes cannot wait with a mutex of ours: that wait ends at once, as any wait may,
 * and is retried.
 */
#include "sync/cond.h"

#include "base/export.h"
#include "base/next.h"
#include "preload/sync/mutex.h"
#include "preload/sync/objects.h"
#include "preload/sync/start.h"

#include <errno.h>
#include <string.h>

/* Between two tries of a wait that is none. */
#define MIXED_NAP_NS 50000

_Static_assert(sizeof(struct tek_sync_cond) <= sizeof(pthread_cond_t), "it lies in that");

static struct tek_sync_cond *of(pthread_cond_t *object)
{
	return (struct tek_sync_cond *)object;
}

static bool is_ours(pthread_cond_t *object)
{
	return tek_sync__sync()->mutex.lock &&
	       !tek__flag_is_set(object, tek_sync__objects()->cond_shared);
}

struct wait {
	struct tek_sync_cond *cond;
	struct tek_sync_cond_waiter waiter;
	pthread_mutex_t *mutex;
	struct tek_until until; /* here, and so not in a register when a cancellation jumps */
};

/* Clean-up handlers of the program find the mutex locked. */
static void cancelled(void *argument)
{
	struct wait *wait = argument;

	tek_sync__cond_leave(wait->cond, &wait->waiter);
	tek_sync__mutex_lock(wait->mutex);
}

static int wait(pthread_cond_t *object, pthread_mutex_t *mutex, struct tek_until until)
{
	struct wait wait = {.cond = of(object), .mutex = mutex, .until = until};
	int result, error;

	if (until.at && !tek__is_time(until.at))
		return EINVAL;
	pthread_testcancel();
	tek_sync__cond_enter(wait.cond, &wait.waiter);
	error = tek_sync__mutex_unlock(mutex);
	if (error) {
		tek_sync__cond_leave(wait.cond, &wait.waiter);
		return error;
	}
	pthread_cleanup_push(cancelled, &wait);
	result = tek_sync__cond_sleep(wait.cond, &wait.waiter, wait.until);
	pthread_cleanup_pop(0);
	/* The result of locking precedes the result of the wait: EOWNERDEAD. */
	error = tek_sync__mutex_lock(mutex);
	return error ? error : result;
}

/* Of several processes, and with a mutex of ours. */
static bool is_mixed(pthread_mutex_t *mutex)
{
	return tek_sync__mutex_kind(tek_sync__mutex_of(mutex)) != NULL;
}

static int wait_mixed(pthread_mutex_t *mutex, struct tek_until until)
{
	struct tek_spinning spinning = {0};
	int result = tek_sync__spin_until(&spinning, until);

	if (result == EINVAL)
		return result;
	int error = tek_sync__mutex_unlock(mutex);
	if (error)
		return error;
	tek_sync__nap(MIXED_NAP_NS); /* threads of lesser priority have to come, too */
	error = tek_sync__mutex_lock(mutex);
	pthread_testcancel();
	return error ? error : result;
}

TEK_EXPORT int pthread_cond_wait(pthread_cond_t *object, pthread_mutex_t *mutex)
{
	if (is_ours(object))
		return wait(object, mutex, TEK_FOR_EVER);
	return is_mixed(mutex) ? wait_mixed(mutex, TEK_FOR_EVER)
			       : TEK_REAL(pthread_cond_wait)(object, mutex);
}

TEK_EXPORT int pthread_cond_timedwait(pthread_cond_t *object, pthread_mutex_t *mutex,
				      const struct timespec *time)
{
	const bool monotonic = tek__flag_is_set(object, tek_sync__objects()->cond_monotonic);
	const clockid_t clock = monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME;
	const struct tek_until until = {clock, time};

	if (is_ours(object))
		return wait(object, mutex, until);
	return is_mixed(mutex) ? wait_mixed(mutex, until)
			       : TEK_REAL(pthread_cond_timedwait)(object, mutex, time);
}

TEK_EXPORT int pthread_cond_clockwait(pthread_cond_t *object, pthread_mutex_t *mutex,
				      clockid_t clock, const struct timespec *time)
{
	const struct tek_until until = {clock, time};

	if (!tek__clock_is_known(clock))
		return EINVAL;
	if (is_ours(object))
		return wait(object, mutex, until);
	return is_mixed(mutex) ? wait_mixed(mutex, until)
			       : TEK_REAL(pthread_cond_clockwait)(object, mutex, clock, time);
}

TEK_EXPORT int pthread_cond_signal(pthread_cond_t *object)
{
	if (!is_ours(object))
		return TEK_REAL(pthread_cond_signal)(object);
	tek_sync__cond_signal(of(object));
	return 0;
}

TEK_EXPORT int pthread_cond_broadcast(pthread_cond_t *object)
{
	if (!is_ours(object))
		return TEK_REAL(pthread_cond_broadcast)(object);
	tek_sync__cond_broadcast(of(object));
	return 0;
}

TEK_EXPORT int pthread_cond_init(pthread_cond_t *object, const pthread_condattr_t *attributes)
{
	static bool reported_shared;
	clockid_t clock = CLOCK_REALTIME;
	int shared = PTHREAD_PROCESS_PRIVATE;

	if (attributes) {
		pthread_condattr_getpshared(attributes, &shared);
		pthread_condattr_getclock(attributes, &clock);
	}
	if (!tek_sync__sync()->mutex.lock)
		return TEK_REAL(pthread_cond_init)(object, attributes);
	if (shared == PTHREAD_PROCESS_SHARED) {
		tek_sync__left(&reported_shared, "condition variables of several processes");
		return TEK_REAL(pthread_cond_init)(object, attributes);
	}
	memset(object, 0, sizeof(*object));
	if (clock == CLOCK_MONOTONIC)
		tek__flag_set(object, tek_sync__objects()->cond_monotonic);
	return 0;
}

TEK_EXPORT int pthread_cond_destroy(pthread_cond_t *object)
{
	if (!is_ours(object))
		return TEK_REAL(pthread_cond_destroy)(object);
	return tek_sync__cond_destroy(of(object));
}
