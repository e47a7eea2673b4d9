/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Whether the objects of libtek-sync.so leave the C library's flags in the same memory unchanged:
 * base/objects.h.  Objects for which they do not stay the C library's (start.c).
 */
#include "preload/sync/objects.h"

#include "sync/barrier.h"
#include "sync/cond.h"
#include "sync/rwlock.h"

#include <pthread.h>

struct tek_objects tek_sync__objects_found;

static bool rwlocks_fit(const struct tek_objects *found)
{
	return tek__flag_is_within(found->rwlock_shared, offsetof(struct tek_sync_rwlock, theirs),
				   TEK_END_OF(struct tek_sync_rwlock, theirs)) ||
	       tek__flag_is_within(found->rwlock_shared,
				   TEK_END_OF(struct tek_sync_rwlock, prefers),
				   offsetof(struct tek_sync_rwlock, prefers) + sizeof(void *));
}

static bool barriers_fit(const struct tek_objects *found)
{
	return tek__flag_is_within(found->barrier_shared,
				   offsetof(struct tek_sync_barrier, reserved),
				   offsetof(struct tek_sync_barrier, place));
}

static void keep_fitting(struct tek_objects *found)
{
	tek__objects_keep_cond_flags(found, TEK_END_OF(struct tek_sync_cond, owing));
	if (!rwlocks_fit(found))
		found->rwlock_shared.bit = 0;
	if (!barriers_fit(found))
		found->barrier_shared.bit = 0;
}

void tek_sync__objects_find(void)
{
	tek__objects_find(&tek_sync__objects_found, keep_fitting);
}
