/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols of barriers.  Those of several processes are the C library's, which says so by a
 * flag in them: base/objects.h.
 */
#include "uthread/barrier.h"
#include "base/export.h"
#include "base/next.h"
#include "uthread/posix/aside.h"
#include "uthread/posix/interrupt.h"
#include "uthread/posix/objects.h"

#include <errno.h>
#include <pthread.h>

_Static_assert(sizeof(struct tek_barrier) <= sizeof(pthread_barrier_t), "it lies in that");

static struct tek_barrier *of(pthread_barrier_t *object)
{
	return (struct tek_barrier *)object;
}

static bool is_shared(const pthread_barrier_t *object)
{
	return tek__flag_is_set(object, tek_ut__objects()->barrier_shared);
}

TEK_EXPORT int pthread_barrier_init(pthread_barrier_t *object,
				    const pthread_barrierattr_t *attributes, unsigned int count)
{
	int shared = PTHREAD_PROCESS_PRIVATE;

	if (count == 0 || count > TEK_BARRIER_MAX)
		return EINVAL;
	if (attributes)
		pthread_barrierattr_getpshared(attributes, &shared);
	if (shared == PTHREAD_PROCESS_SHARED && !tek_ut__objects()->barrier_shared.bit)
		return ENOTSUP; /* it would not be recognised */
	if (shared == PTHREAD_PROCESS_SHARED)
		return TEK_REAL(pthread_barrier_init)(object, attributes, count);
	*of(object) = (struct tek_barrier){.count = count};
	return 0;
}

TEK_EXPORT int pthread_barrier_destroy(pthread_barrier_t *object)
{
	if (is_shared(object))
		return TEK_REAL(pthread_barrier_destroy)(object);
	return tek_ut__barrier_is_used(of(object)) ? EBUSY : 0;
}

TEK_EXPORT int pthread_barrier_wait(pthread_barrier_t *object)
{
	struct tek_waiter waiter;

	if (is_shared(object))
		return TEK_ASIDE(TEK_REAL(pthread_barrier_wait)(object));
	if (of(object)->shared)
		return EINVAL; /* not initialised */
	/* No cancellation point. */
	int result = tek_ut__barrier_wait(of(object), &waiter, true);
	while (result == EINTR) {
		tek_ut__interrupted_by_signal();
		result = tek_ut__barrier_go_on(&waiter);
	}
	return result < 0 ? PTHREAD_BARRIER_SERIAL_THREAD : result;
}
