/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Whether the objects of libtek-sync.so leave alone what the C library has in the same memory:
 * see preload/objects.h.  Where that is not so they stay the C library's (start.c).
 */
#include "preload/objects.h"
#include "sync/barrier.h"
#include "sync/cond.h"
#include "sync/rwlock.h"

#include <pthread.h>

#define END_OF(type, member) (offsetof(type, member) + sizeof(((type *)NULL)->member))

static bool conds_fit(const struct tek_objects *found)
{
	const size_t end = END_OF(struct tek_cond, owing);

	return tek__flag_is_within(found->cond_shared, end, sizeof(pthread_cond_t)) &&
	       tek__flag_is_within(found->cond_monotonic, end, sizeof(pthread_cond_t));
}

static bool rwlocks_fit(const struct tek_objects *found)
{
	return tek__flag_is_within(found->rwlock_shared, offsetof(struct tek_rwlock, theirs),
				   END_OF(struct tek_rwlock, theirs)) ||
	       tek__flag_is_within(found->rwlock_shared, END_OF(struct tek_rwlock, prefers),
				   offsetof(struct tek_rwlock, prefers) + sizeof(void *));
}

static bool barriers_fit(const struct tek_objects *found)
{
	return tek__flag_is_within(found->barrier_shared, offsetof(struct tek_barrier, reserved),
				   offsetof(struct tek_barrier, place));
}

void tek__objects_keep_fitting(struct tek_objects *found)
{
	if (!conds_fit(found))
		found->cond_shared.bit = found->cond_monotonic.bit = 0;
	if (!rwlocks_fit(found))
		found->rwlock_shared.bit = 0;
	if (!barriers_fit(found))
		found->barrier_shared.bit = 0;
}
