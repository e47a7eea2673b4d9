/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "place/affinity.h"

#include "place/place.h"
#include "threads/process.h"

static bool is_calling(struct tek_target target)
{
	if (!target.by_tid)
		return pthread_equal(target.handle, pthread_self());
	return target.tid == 0 || target.tid == tek__gettid();
}

/* The CPU + 1 of a thread that is where TEK put it, as far as the program set no other; or 0. */
static unsigned short place_of(struct tek_target target)
{
	unsigned short place = 0;

	if (is_calling(target))
		return tek__place_own();
	if (!tek__lock())
		return 0;
	const struct tek_thread *thread = tek__lookup_known(target);
	if (thread && !thread->moved)
		place = thread->birth.place;
	tek__unlock();
	return place;
}

/* In the size that we have: what is beyond it no kernel knows. */
static struct tek_mask mask_of(size_t bytes, const cpu_set_t *set)
{
	struct tek_mask mask = {{0}};
	memcpy(&mask, set, bytes < sizeof(mask) ? bytes : sizeof(mask));
	return mask;
}

void tek__affinity_report(struct tek_target target, size_t bytes, cpu_set_t *mask)
{
	const unsigned short place = tek__place_is_on() ? place_of(target) : 0;

	if (!place)
		return;
	const struct tek_mask now = mask_of(bytes, mask), given = tek__mask_of(place - 1u);
	if (tek__mask_equal(&now, &given))
		memcpy(mask, &tek__place_allowed, bytes < sizeof(now) ? bytes : sizeof(now));
}

/* Of a thread that has a place. Needs the lock. */
static int set(struct tek_thread *thread, struct tek_target target, size_t bytes,
	       const cpu_set_t *mask, tek__affinity_setter *real)
{
	const struct tek_mask asked = mask_of(bytes, mask);
	const struct tek_mask place = tek__mask_of(thread->birth.place - 1u);

	if (tek__mask_equal(&asked, &tek__place_allowed) &&
	    real(target, sizeof(place), (const cpu_set_t *)&place) == 0) {
		__atomic_store_n(&thread->moved, false, __ATOMIC_RELAXED);
		return 0;
	}
	int error = real(target, bytes, mask);
	if (!error)
		__atomic_store_n(&thread->moved, true, __ATOMIC_RELAXED);
	return error;
}

int tek__affinity_set(struct tek_target target, size_t bytes, const cpu_set_t *mask,
		      tek__affinity_setter *real)
{
	if (!tek__place_is_on() || !mask || !tek__lock())
		return real(target, bytes, mask);
	struct tek_thread *thread = tek__lookup_known(target);
	int error = thread && thread->birth.place ? set(thread, target, bytes, mask, real)
						  : real(target, bytes, mask);
	tek__unlock();
	return error;
}

int tek__place_policy_reported(struct tek_target target, int policy)
{
	if (policy != (SCHED_FIFO | SCHED_RESET_ON_FORK) || !tek__place_config.fifo_priority ||
	    !tek__lock())
		return policy;
	const struct tek_thread *thread = tek__lookup_known(target);
	if (thread && thread->birth.fifo)
		policy = SCHED_FIFO;
	tek__unlock();
	return policy;
}
