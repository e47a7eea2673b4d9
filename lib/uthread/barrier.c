/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/barrier.h"

#include "uthread/guard.h"
#include "uthread/worker.h"

#include <errno.h>

static unsigned int lock(struct tek_barrier *barrier)
{
	return tek_ut__guard_lock(&barrier->arrived, TEK_BARRIER_GUARD);
}

static void unlock(struct tek_barrier *barrier, unsigned int arrived)
{
	tek_ut__guard_unlock(&barrier->arrived, arrived);
}

static void add(struct tek_barrier *barrier, struct tek_waiter *waiter)
{
	struct tek_waiters waiters = {barrier->first, barrier->last};

	tek_ut__waiters_add(&waiters, waiter);
	barrier->first = waiters.first;
	barrier->last = waiters.last;
}

static void remove(struct tek_barrier *barrier, struct tek_waiter *waiter)
{
	struct tek_waiters waiters = {barrier->first, barrier->last};

	tek_ut__waiters_remove(&waiters, waiter);
	barrier->first = waiters.first;
	barrier->last = waiters.last;
}

/*
 * The waiters, in no list any more: claimed ones, and late ones, which cannot be claimed because
 * they handle signals. All of them stay in place until they are woken.
 */
struct released {
	struct tek_waiters claimed, late;
};

/* Under the guard. */
static struct released release_all(struct tek_barrier *barrier)
{
	struct released released = {{NULL, NULL}, {NULL, NULL}};
	struct tek_waiter *waiter;

	while ((waiter = barrier->first)) {
		remove(barrier, waiter);
		/* Waiters of a process that this one was forked from are not there. */
		if (waiter->process == tek_ut__process)
			tek_ut__waiters_add(
				tek_ut__claim(waiter) ? &released.claimed : &released.late, waiter);
	}
	return released;
}

/* Late ones wait again by now, or see it at their next wait. The barrier may be gone. */
static void wake_all(struct released *released)
{
	tek_ut__wake_all_claimed(&released->claimed);
	for (struct tek_waiter *late = released->late.first, *next; late; late = next) {
		next = late->next;
		while (!tek_ut__change(&late->state, TEK_INTERRUPTED, TEK_WOKEN) &&
		       !tek_ut__wake(late, TEK_WOKEN))
			;
	}
}

static int sleep_until_woken(struct tek_waiter *waiter, bool interruptible)
{
	enum tek_wake how = interruptible
				    ? tek_ut__wait_interruptible(waiter, NULL, TEK_WAITS_BARRIER)
				    : tek_ut__wait_deferred(waiter, NULL, TEK_WAITS_BARRIER);
	return how == TEK_INTERRUPTED ? EINTR : 0;
}

/* A barrier that was never initialised most likely fails this check. */
static bool is_sound(struct tek_barrier *barrier)
{
	unsigned int arrived = atomic_load_explicit(&barrier->arrived, memory_order_relaxed);

	return barrier->count <= TEK_BARRIER_MAX && (arrived & ~TEK_BARRIER_GUARD) < barrier->count;
}

int tek_ut__barrier_wait(struct tek_barrier *barrier, struct tek_waiter *waiter, bool interruptible)
{
	int result = -1;

	if (!is_sound(barrier))
		return EINVAL;
	tek_ut__waiter_init(waiter);
	tek_ut__enter();
	unsigned int arrived = lock(barrier);
	if ((arrived != 0) != (barrier->first != NULL)) {
		unlock(barrier, arrived);
		result = EINVAL;
	} else if (arrived + 1 == barrier->count) {
		struct released released = release_all(barrier);
		unlock(barrier, 0);
		wake_all(&released);
	} else {
		add(barrier, waiter);
		unlock(barrier, arrived + 1);
		result = sleep_until_woken(waiter, interruptible);
	}
	tek_ut__leave();
	return result;
}

int tek_ut__barrier_go_on(struct tek_waiter *waiter)
{
	int result = 0;

	/* It is in the list still, or is woken by the thread that took it out. */
	tek_ut__enter();
	if (tek_ut__change(&waiter->state, TEK_INTERRUPTED, TEK_WAITING))
		result = sleep_until_woken(waiter, true);
	tek_ut__leave();
	return result;
}

bool tek_ut__barrier_is_used(struct tek_barrier *barrier)
{
	return atomic_load_explicit(&barrier->arrived, memory_order_relaxed) != 0;
}
