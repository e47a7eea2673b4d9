/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols of barriers.  Those of several processes stay the C library's, which says so by a
 * flag in them (base/objects.h); so do all where no kind was chosen.
 */
#include "base/export.h"
#include "base/next.h"
#include "preload/sync/objects.h"
#include "preload/sync/start.h"

#include <errno.h>
#include <pthread.h>

_Static_assert(sizeof(struct tek_sync_barrier) <= sizeof(pthread_barrier_t) &&
		       _Alignof(struct tek_sync_barrier) <= _Alignof(pthread_barrier_t),
	       "it lies in that");

static struct tek_sync_barrier *of(pthread_barrier_t *object)
{
	return (struct tek_sync_barrier *)object;
}

/* NULL: it is the C library's. */
static inline const struct tek_barrier_kind *kind_of(pthread_barrier_t *object)
{
	const struct tek_sync_chosen *chosen = tek_sync__sync();

	if (!chosen->barrier.name || tek__flag_is_set(object, tek_sync__objects()->barrier_shared))
		return NULL;
	return &chosen->barrier;
}

TEK_EXPORT int pthread_barrier_init(pthread_barrier_t *object,
				    const pthread_barrierattr_t *attributes, unsigned int count)
{
	const struct tek_sync_chosen *chosen = tek_sync__sync();
	int shared = PTHREAD_PROCESS_PRIVATE;
	static bool reported;

	if (count == 0 || count > TEK_SYNC_BARRIER_MAX)
		return EINVAL;
	if (!chosen->barrier.name)
		return TEK_REAL(pthread_barrier_init)(object, attributes, count);
	if (attributes)
		pthread_barrierattr_getpshared(attributes, &shared);
	if (shared == PTHREAD_PROCESS_SHARED) {
		tek_sync__left(&reported, "barriers of several processes");
		return TEK_REAL(pthread_barrier_init)(object, attributes, count);
	}
	return chosen->barrier.init(of(object), count);
}

TEK_EXPORT int pthread_barrier_wait(pthread_barrier_t *object)
{
	const struct tek_barrier_kind *kind = kind_of(object);

	if (!kind)
		return TEK_REAL(pthread_barrier_wait)(object);
	if (!of(object)->place)
		return EINVAL; /* not initialised */
	return kind->wait(of(object)) ? PTHREAD_BARRIER_SERIAL_THREAD : 0;
}

TEK_EXPORT int pthread_barrier_destroy(pthread_barrier_t *object)
{
	const struct tek_barrier_kind *kind = kind_of(object);

	if (!kind)
		return TEK_REAL(pthread_barrier_destroy)(object);
	return of(object)->place ? kind->destroy(of(object)) : EINVAL;
}
