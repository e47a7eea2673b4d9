/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols of semaphores.  Those of several processes, named ones too, are the C library's,
 * which says so by a flag in them (base/objects.h).  They fail with -1 and errno.
 */
#include "base/export.h"
#include "base/next.h"
#include "uthread/posix/aside.h"
#include "uthread/posix/interrupt.h"
#include "uthread/posix/objects.h"
#include "uthread/semaphore.h"

#include <errno.h>
#include <semaphore.h>
#include <stddef.h>

_Static_assert(sizeof(struct tek_semaphore) <= sizeof(sem_t), "it lies in that");

static struct tek_semaphore *of(sem_t *object)
{
	return (struct tek_semaphore *)object;
}

static bool is_shared(const sem_t *object)
{
	return tek__flag_is_set(object, tek_ut__objects()->semaphore_shared);
}

static int result(int error)
{
	if (!error)
		return 0;
	errno = error;
	return -1;
}

static int wait(sem_t *object, struct tek_until until)
{
	const unsigned long handlers = tek_ut__failing_handlers_run();

	tek_ut__cancel_point();
	for (;;) {
		int error = tek_ut__semaphore_wait(of(object), until, true);
		if (error == EINTR)
			tek_ut__interrupted();
		if (error != EINTR || tek_ut__failing_handlers_run() != handlers)
			return result(error);
	}
}

/* One of several processes. 0; EBUSY: there is no unit; -1. */
static int try_shared(sem_t *object, unsigned long handlers)
{
	const int error = errno;

	tek_ut__cancel_point();
	if (TEK_REAL(sem_trywait)(object) == 0)
		return 0;
	if (tek_ut__failing_handlers_run() != handlers)
		return result(EINTR);
	errno = error;
	return EBUSY;
}

TEK_EXPORT int sem_wait(sem_t *object)
{
	if (is_shared(object)) {
		const unsigned long handlers = tek_ut__failing_handlers_run();
		return TEK_ASIDE_IF_BUSY(try_shared(object, handlers), TEK_REAL(sem_wait)(object),
					 TEK_FOR_EVER);
	}
	return wait(object, TEK_FOR_EVER);
}

TEK_EXPORT int sem_timedwait(sem_t *object, const struct timespec *time)
{
	if (is_shared(object)) {
		const unsigned long handlers = tek_ut__failing_handlers_run();
		return TEK_ASIDE_IF_BUSY(try_shared(object, handlers),
					 TEK_REAL(sem_timedwait)(object, time),
					 ((struct tek_until){CLOCK_REALTIME, time}));
	}
	return wait(object, (struct tek_until){CLOCK_REALTIME, time});
}

TEK_EXPORT int sem_clockwait(sem_t *object, clockid_t clock, const struct timespec *time)
{
	if (is_shared(object)) {
		const unsigned long handlers = tek_ut__failing_handlers_run();
		return TEK_ASIDE_IF_BUSY(try_shared(object, handlers),
					 TEK_REAL(sem_clockwait)(object, clock, time),
					 ((struct tek_until){clock, time}));
	}
	if (!tek__clock_is_known(clock))
		return result(EINVAL);
	return wait(object, (struct tek_until){clock, time});
}

TEK_EXPORT int sem_trywait(sem_t *object)
{
	return is_shared(object) ? TEK_REAL(sem_trywait)(object)
				 : result(tek_ut__semaphore_try(of(object)));
}

TEK_EXPORT int sem_post(sem_t *object)
{
	return is_shared(object) ? TEK_REAL(sem_post)(object)
				 : result(tek_ut__semaphore_post(of(object)));
}

TEK_EXPORT int sem_getvalue(sem_t *object, int *value)
{
	if (is_shared(object))
		return TEK_REAL(sem_getvalue)(object, value);
	*value = tek_ut__semaphore_value(of(object));
	return 0;
}

TEK_EXPORT int sem_init(sem_t *object, int shared, unsigned int value)
{
	if (value > TEK_SEM_VALUE_MAX)
		return result(EINVAL);
	if (shared && !tek_ut__objects()->semaphore_shared.bit)
		return result(ENOTSUP); /* it would not be recognised */
	if (shared)
		return TEK_REAL(sem_init)(object, shared, value);
	*of(object) = (struct tek_semaphore){.word = value};
	return 0;
}

TEK_EXPORT int sem_destroy(sem_t *object)
{
	if (is_shared(object))
		return TEK_REAL(sem_destroy)(object);
	return tek_ut__semaphore_is_used(of(object)) ? result(EBUSY) : 0;
}
