/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Whether the objects of libtek-uthread.so leave the C library's flags in the same memory
 * unchanged: base/objects.h.  Where they do not, objects of several processes could not be
 * recognised and are refused with ENOTSUP.
 */
#include "uthread/posix/objects.h"

#include "uthread/barrier.h"
#include "uthread/cond.h"
#include "uthread/rwlock.h"
#include "uthread/semaphore.h"

#include <pthread.h>

struct tek_objects tek_ut__objects_found;

static bool rwlocks_fit(const struct tek_objects *found)
{
	return tek__flag_is_within(found->rwlock_shared, offsetof(struct tek_rwlock, reserved),
				   TEK_END_OF(struct tek_rwlock, reserved)) ||
	       tek__flag_is_within(found->rwlock_shared, TEK_END_OF(struct tek_rwlock, kind),
				   sizeof(struct tek_rwlock));
}

static bool barriers_fit(const struct tek_objects *found)
{
	return tek__flag_is_within(found->barrier_shared, offsetof(struct tek_barrier, shared),
				   TEK_END_OF(struct tek_barrier, shared));
}

static bool semaphores_fit(const struct tek_objects *found)
{
	return tek__flag_is_within(found->semaphore_shared,
				   offsetof(struct tek_semaphore, reserved),
				   offsetof(struct tek_semaphore, waiters));
}

static void keep_fitting(struct tek_objects *found)
{
	tek__objects_keep_cond_flags(found, TEK_END_OF(struct tek_cond, waiters));
	if (!rwlocks_fit(found))
		found->rwlock_shared.bit = 0;
	if (!barriers_fit(found))
		found->barrier_shared.bit = 0;
	if (!semaphores_fit(found))
		found->semaphore_shared.bit = 0;
}

void tek_ut__objects_find(void)
{
	tek__objects_find(&tek_ut__objects_found, keep_fitting);
}
