/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The rules of each kind of mutex, but for the special ones. */
#include "uthread/mutex.h"

#include <errno.h>
#include <limits.h>

static uintptr_t owner_of(struct tek_mutex *mutex)
{
	return atomic_load_explicit(&mutex->owner, memory_order_relaxed);
}

/*
 * Only the owner itself ever finds itself there, so no order is needed: it sees its own write, and
 * every other thread any value but itself.
 */
static void set_owner(struct tek_mutex *mutex, uintptr_t owner)
{
	atomic_store_explicit(&mutex->owner, owner, memory_order_relaxed);
}

/* The caller owns it already. */
static int lock_again(struct tek_mutex *mutex)
{
	if ((mutex->kind & TEK_MUTEX_TYPE) != TEK_MUTEX_RECURSIVE)
		return EDEADLK;
	if (mutex->count == UINT_MAX)
		return EAGAIN;
	mutex->count++;
	return 0;
}

int tek_ut__mutex_try(struct tek_mutex *mutex)
{
	if (mutex->kind < 0)
		return EINVAL;
	if (mutex->kind & TEK_MUTEX_SPECIAL)
		return tek_ut__mutex_special_try(mutex);
	if (tek_ut__mutex_is_plain(mutex))
		return tek_ut__mutex_barge(mutex) ? 0 : EBUSY;

	uintptr_t me = tek_ut__me();
	if (owner_of(mutex) == me) {
		int error = lock_again(mutex);
		return error == EDEADLK ? EBUSY : error;
	}
	if (!tek_ut__mutex_barge(mutex))
		return EBUSY;
	set_owner(mutex, me);
	return 0;
}

int tek_ut__mutex_lock(struct tek_mutex *mutex, struct tek_mutex_waiter *waiter,
		       struct tek_until until, bool interruptible)
{
	uintptr_t me = 0;
	int error = 0;

	if (mutex->kind < 0)
		return EINVAL;
	if (mutex->kind & TEK_MUTEX_SPECIAL)
		return tek_ut__mutex_special_lock(mutex, waiter, until, interruptible);
	if (!tek_ut__mutex_is_plain(mutex)) {
		me = tek_ut__me();
		if (owner_of(mutex) == me)
			return lock_again(mutex);
	}
	/* An awaited waiter has to arrive (TEK_MUTEX_WOKEN), in tek_ut__mutex_take(). */
	if (!waiter->owns && (waiter->woken || !tek_ut__mutex_barge(mutex)))
		error = tek_ut__mutex_take(mutex, waiter, until, interruptible);
	if (!error && me)
		set_owner(mutex, me);
	return error;
}

/* Not inlined into its callers: their fast paths need no frame. */
__attribute__((noinline)) int tek_ut__mutex_unlock(struct tek_mutex *mutex)
{
	if (tek_ut__mutex_is_plain(mutex)) {
		tek_ut__mutex_give(mutex);
		return 0;
	}
	if (mutex->kind < 0)
		return EINVAL;
	if (mutex->kind & TEK_MUTEX_SPECIAL)
		return tek_ut__mutex_special_unlock(mutex);
	if (owner_of(mutex) != tek_ut__me())
		return EPERM;
	if (mutex->count) {
		mutex->count--;
		return 0;
	}
	set_owner(mutex, 0);
	tek_ut__mutex_give(mutex);
	return 0;
}

int tek_ut__mutex_destroy(struct tek_mutex *mutex)
{
	if (mutex->kind < 0)
		return EINVAL;
	if (atomic_load_explicit(&mutex->state, memory_order_relaxed) & TEK_MUTEX_LOCKED)
		return EBUSY;
	if (mutex->kind & TEK_MUTEX_SPECIAL)
		tek_ut__mutex_special_destroy(mutex);
	mutex->kind = -1;
	return 0;
}
