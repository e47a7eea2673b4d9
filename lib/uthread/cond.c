/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/cond.h"

#include "uthread/worker.h"

#include <errno.h>

static unsigned int lock(struct tek_cond *cond)
{
	return tek__guard_lock(&cond->guard, TEK_COND_GUARD);
}

static void unlock(struct tek_cond *cond)
{
	tek__guard_unlock(&cond->guard, 0);
}

/* Deferred. */
static void add(struct tek_cond *cond, struct tek_cond_waiter *waiter)
{
	tek__waiter_init(&waiter->of_mutex.wait);
	lock(cond);
	tek__waiters_add_by_priority(&cond->waiters, &waiter->of_mutex.wait);
	unlock(cond);
}

/* Deferred.  It does not wait any more; returns whether a broadcast had reached it. */
static bool withdraw(struct tek_cond *cond, struct tek_cond_waiter *waiter)
{
	lock(cond);
	bool moved = waiter->moved;
	if (!moved)
		tek__waiters_remove(&cond->waiters, &waiter->of_mutex.wait);
	unlock(cond);
	if (moved)
		tek__mutex_remove_waiter(waiter->mutex, &waiter->of_mutex);
	return moved;
}

/* Deferred. */
static int sleep_until_woken(struct tek_cond *cond, struct tek_cond_waiter *waiter,
			     const struct timespec *deadline, bool interruptible)
{
	struct tek_waiter *wait = &waiter->of_mutex.wait;
	enum tek_wake how = interruptible ? tek__wait_interruptible(wait, deadline, "cond")
					  : tek__wait_deferred(wait, deadline, "cond");

	if (how == TEK_WOKEN) {
		tek__guard_pass(&cond->guard, TEK_COND_GUARD);
		/* Of those who were moved the mutex has woken this one, and waits for it. */
		waiter->of_mutex.coming = waiter->moved && !waiter->of_mutex.owns;
		return 0;
	}
	bool reached = withdraw(cond, waiter);
	if (how == TEK_INTERRUPTED)
		return EINTR;
	return reached ? 0 : ETIMEDOUT;
}

void tek__cond_begin(struct tek_cond *cond, struct tek_cond_waiter *waiter)
{
	tek__enter();
	add(cond, waiter);
	tek__leave();
}

void tek__cond_give_up(struct tek_cond *cond, struct tek_cond_waiter *waiter)
{
	tek__enter();
	withdraw(cond, waiter);
	tek__leave();
}

int tek__cond_sleep(struct tek_cond *cond, struct tek_cond_waiter *waiter,
		    const struct timespec *deadline, bool interruptible)
{
	tek__enter();
	int error = sleep_until_woken(cond, waiter, deadline, interruptible);
	tek__leave();
	return error;
}

int tek__cond_wait(struct tek_cond *cond, struct tek_cond_waiter *waiter, struct tek_until until,
		   bool interruptible)
{
	const struct timespec *deadline;
	struct timespec room;
	int error = tek__until_deadline(until, &room, &deadline);

	if (error)
		return error;
	/*
	 * Special mutexes want to know who waits for them: mutex_special.c.  A recursive one that stays locked is
	 * the caller's own.
	 */
	waiter->movable = !(waiter->mutex->kind & TEK_MUTEX_SPECIAL) && !waiter->mutex->count;
	tek__enter();
	add(cond, waiter);
	error = tek__mutex_unlock_quickly(waiter->mutex) ? 0 : tek__mutex_unlock(waiter->mutex);
	if (error)
		withdraw(cond, waiter);
	else
		error = sleep_until_woken(cond, waiter, deadline, interruptible);
	tek__leave();
	return error;
}

static struct tek_waiter *first_of(struct tek_cond *cond)
{
	return __atomic_load_n(&cond->waiters.first, __ATOMIC_RELAXED);
}

bool tek__cond_is_used(struct tek_cond *cond)
{
	return first_of(cond) != NULL;
}

void tek__cond_signal(struct tek_cond *cond)
{
	/* Who unlocked the mutex before the caller locked it, or was told so otherwise, is in the list. */
	if (!first_of(cond))
		return;
	tek__enter();
	lock(cond);
	tek__wake_first(&cond->waiters);
	unlock(cond);
	tek__leave();
}

/* Deferred, under the guard: the first one waits for its mutex instead; false: that would not make it wait. */
static bool move_first(struct tek_cond *cond)
{
	struct tek_cond_waiter *waiter = (struct tek_cond_waiter *)cond->waiters.first;

	if (!waiter->movable)
		return false;
	tek__waiters_remove(&cond->waiters, &waiter->of_mutex.wait);
	/* Before: from then on an unlock may wake it. */
	waiter->moved = true;
	if (tek__mutex_add_waiter(waiter->mutex, &waiter->of_mutex))
		return true;
	waiter->moved = false;
	tek__wake(&waiter->of_mutex.wait, TEK_WOKEN);
	return true;
}

void tek__cond_broadcast(struct tek_cond *cond)
{
	if (!first_of(cond))
		return;
	tek__enter();
	lock(cond);
	while (cond->waiters.first) {
		if (!move_first(cond))
			tek__wake_first(&cond->waiters);
	}
	unlock(cond);
	tek__leave();
}
