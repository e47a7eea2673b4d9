/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols of condition variables. Two flags are where the C library has them
 * (base/objects.h): one marks those of several processes, which are the C library's; the other
 * one marks CLOCK_MONOTONIC.
 */
#include "uthread/cond.h"
#include "base/export.h"
#include "preload/uthread/mutex.h"
#include "uthread/posix/aside.h"
#include "uthread/posix/interrupt.h"
#include "uthread/posix/objects.h"

#include <errno.h>
#include <string.h>

_Static_assert(sizeof(struct tek_cond) <= sizeof(pthread_cond_t), "it lies in that");

static struct tek_cond *of(pthread_cond_t *object)
{
	return (struct tek_cond *)object;
}

static bool is_shared(pthread_cond_t *object)
{
	return tek__flag_is_set(object, tek_ut__objects()->cond_shared);
}

/*
 * The mutex is locked again; what that comes to goes before how the wait ended: EOWNERDEAD.
 * Handlers of signals ran before, when it was not locked.
 */
static int lock_again(pthread_mutex_t *mutex, struct tek_cond_waiter *waiter, int result)
{
	if (waiter->mutex && tek_ut__cond_lock_quickly(waiter))
		return result;
	int error = waiter->mutex ? tek_ut__posix_mutex_lock(mutex, &waiter->of_mutex, TEK_FOR_EVER)
				  : pthread_mutex_lock(mutex);
	return error ? error : result;
}

/* A mutex of several processes. */
static int wait_with_shared(struct tek_cond *cond, pthread_mutex_t *mutex,
			    struct tek_cond_waiter *waiter, struct tek_until until)
{
	const struct timespec *deadline;
	struct timespec room;
	int error = tek__until_deadline(until, &room, &deadline);

	if (error)
		return error;
	tek_ut__cond_begin(cond, waiter);
	error = pthread_mutex_unlock(mutex);
	if (!error)
		return tek_ut__cond_sleep(cond, waiter, deadline, true);
	tek_ut__cond_give_up(cond, waiter);
	return error;
}

static int wait(pthread_cond_t *object, pthread_mutex_t *mutex, struct tek_until until)
{
	struct tek_cond *cond = of(object);
	struct tek_mutex *ours = tek_ut__mutex_of(mutex);
	struct tek_cond_waiter waiter;
	int error;

	tek_ut__cancel_point();
	tek_ut__cond_waiter_init(&waiter, tek_ut__mutex_is_shared(ours) ? NULL : ours);
	error = waiter.mutex ? tek_ut__cond_wait(cond, &waiter, until, true)
			     : wait_with_shared(cond, mutex, &waiter, until);
	switch (error) {
	case 0:
	case ETIMEDOUT:
		return lock_again(mutex, &waiter, error);
	case EINTR:
		/* The wait ends, as POSIX allows.  Clean-up handlers find the mutex locked. */
		tek_ut__interrupted_by_signal();
		error = lock_again(mutex, &waiter, 0);
		tek_ut__cancel_point();
		return error;
	default:
		return error;
	}
}

TEK_EXPORT int pthread_cond_wait(pthread_cond_t *object, pthread_mutex_t *mutex)
{
	if (is_shared(object))
		return TEK_ASIDE(TEK_REAL(pthread_cond_wait)(object, mutex));
	return wait(object, mutex, TEK_FOR_EVER);
}

TEK_EXPORT int pthread_cond_timedwait(pthread_cond_t *object, pthread_mutex_t *mutex,
				      const struct timespec *time)
{
	if (is_shared(object))
		return TEK_ASIDE(TEK_REAL(pthread_cond_timedwait)(object, mutex, time));
	const bool monotonic = tek__flag_is_set(object, tek_ut__objects()->cond_monotonic);
	const clockid_t clock = monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME;
	return wait(object, mutex, (struct tek_until){clock, time});
}

TEK_EXPORT int pthread_cond_clockwait(pthread_cond_t *object, pthread_mutex_t *mutex,
				      clockid_t clock, const struct timespec *time)
{
	if (is_shared(object))
		return TEK_ASIDE(TEK_REAL(pthread_cond_clockwait)(object, mutex, clock, time));
	if (!tek__clock_is_known(clock))
		return EINVAL;
	return wait(object, mutex, (struct tek_until){clock, time});
}

TEK_EXPORT int pthread_cond_signal(pthread_cond_t *object)
{
	if (is_shared(object))
		return TEK_REAL(pthread_cond_signal)(object);
	tek_ut__cond_signal(of(object));
	return 0;
}

TEK_EXPORT int pthread_cond_broadcast(pthread_cond_t *object)
{
	if (is_shared(object))
		return TEK_REAL(pthread_cond_broadcast)(object);
	tek_ut__cond_broadcast(of(object));
	return 0;
}

TEK_EXPORT int pthread_cond_init(pthread_cond_t *object, const pthread_condattr_t *attributes)
{
	clockid_t clock = CLOCK_REALTIME;
	int shared = PTHREAD_PROCESS_PRIVATE;

	if (attributes) {
		pthread_condattr_getpshared(attributes, &shared);
		pthread_condattr_getclock(attributes, &clock);
	}
	if (!tek_ut__objects()->cond_shared.bit &&
	    (shared != PTHREAD_PROCESS_PRIVATE || clock != CLOCK_REALTIME))
		return ENOTSUP; /* it would not be recognised */
	if (shared == PTHREAD_PROCESS_SHARED)
		return TEK_REAL(pthread_cond_init)(object, attributes);
	memset(object, 0, sizeof(*object));
	if (clock == CLOCK_MONOTONIC)
		tek__flag_set(object, tek_ut__objects()->cond_monotonic);
	return 0;
}

TEK_EXPORT int pthread_cond_destroy(pthread_cond_t *object)
{
	if (is_shared(object))
		return TEK_REAL(pthread_cond_destroy)(object);
	return tek_ut__cond_destroy(of(object));
}
