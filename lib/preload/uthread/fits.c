/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Whether the objects of libtek-uthread.so leave alone what the C library has in the same memory:
 * see preload/objects.h.  Where that is not so objects of several processes, which would not be
 * recognised, are refused with ENOTSUP.
 */
#include "preload/objects.h"
#include "uthread/barrier.h"
#include "uthread/cond.h"
#include "uthread/rwlock.h"
#include "uthread/semaphore.h"

#include <pthread.h>

#define END_OF(type, member) (offsetof(type, member) + sizeof(((type *)NULL)->member))

static bool conds_fit(const struct tek_objects *found)
{
	const size_t end = END_OF(struct tek_cond, waiters);

	return tek__flag_is_within(found->cond_shared, end, sizeof(pthread_cond_t)) &&
	       tek__flag_is_within(found->cond_monotonic, end, sizeof(pthread_cond_t));
}

static bool rwlocks_fit(const struct tek_objects *found)
{
	return tek__flag_is_within(found->rwlock_shared, offsetof(struct tek_rwlock, reserved),
				   END_OF(struct tek_rwlock, reserved)) ||
	       tek__flag_is_within(found->rwlock_shared, END_OF(struct tek_rwlock, kind),
				   sizeof(struct tek_rwlock));
}

static bool barriers_fit(const struct tek_objects *found)
{
	return tek__flag_is_within(found->barrier_shared, offsetof(struct tek_barrier, shared),
				   END_OF(struct tek_barrier, shared));
}

static bool semaphores_fit(const struct tek_objects *found)
{
	return tek__flag_is_within(found->semaphore_shared,
				   offsetof(struct tek_semaphore, reserved),
				   offsetof(struct tek_semaphore, waiters));
}

void tek__objects_keep_fitting(struct tek_objects *found)
{
	if (!conds_fit(found))
		found->cond_shared.bit = found->cond_monotonic.bit = 0;
	if (!rwlocks_fit(found))
		found->rwlock_shared.bit = 0;
	if (!barriers_fit(found))
		found->barrier_shared.bit = 0;
	if (!semaphores_fit(found))
		found->semaphore_shared.bit = 0;
}
