/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/barrier.h"

#include "uthread/guard.h"
#include "uthread/worker.h"

#include <errno.h>

static unsigned int lock(struct tek_barrier *barrier)
{
	return tek__guard_lock(&barrier->arrived, TEK_BARRIER_GUARD);
}

static void unlock(struct tek_barrier *barrier, unsigned int arrived)
{
	tek__guard_unlock(&barrier->arrived, arrived);
}

static void add(struct tek_barrier *barrier, struct tek_waiter *waiter)
{
	struct tek_waiters waiters = {barrier->first, barrier->last};

	tek__waiters_add(&waiters, waiter);
	barrier->first = waiters.first;
	barrier->last = waiters.last;
}

static void remove(struct tek_barrier *barrier, struct tek_waiter *waiter)
{
	struct tek_waiters waiters = {barrier->first, barrier->last};

	tek__waiters_remove(&waiters, waiter);
	barrier->first = waiters.first;
	barrier->last = waiters.last;
}

/*
 * Under the guard.  Returns those who cannot be woken because they handle signals, chained by `next`: they are in no list
 * any more, and stay where they are until they are told.
 */
static struct tek_waiter *release_all(struct tek_barrier *barrier)
{
	struct tek_waiter *waiter, *late = NULL;

	while ((waiter = barrier->first)) {
		remove(barrier, waiter);
		if (tek__wake(waiter, TEK_WOKEN))
			continue;
		((struct tek_barrier_waiter *)waiter)->late = true;
		waiter->next = late;
		late = waiter;
	}
	return late;
}

/* They wait again by now, or find out when they want to. The barrier may be gone. */
static void tell(struct tek_waiter *late)
{
	while (late) {
		struct tek_waiter *next = late->next;
		while (!tek__change(&late->state, TEK_INTERRUPTED, TEK_WOKEN) &&
		       !tek__wake(late, TEK_WOKEN))
			;
		late = next;
	}
}

static int sleep_until_woken(struct tek_barrier *barrier, struct tek_barrier_waiter *waiter,
			     bool interruptible)
{
	enum tek_wake how = interruptible ? tek__wait_interruptible(&waiter->wait, NULL, "barrier")
					  : tek__wait_deferred(&waiter->wait, NULL, "barrier");
	if (how == TEK_INTERRUPTED)
		return EINTR;
	if (!waiter->late)
		tek__guard_pass(&barrier->arrived, TEK_BARRIER_GUARD);
	return 0;
}

int tek__barrier_wait(struct tek_barrier *barrier, struct tek_barrier_waiter *waiter,
		      bool interruptible)
{
	struct tek_waiter *late;
	int result = -1;

	waiter->late = false;
	tek__waiter_init(&waiter->wait);
	tek__enter();
	unsigned int arrived = lock(barrier) + 1;
	if (arrived == barrier->count) {
		late = release_all(barrier);
		unlock(barrier, 0);
		tell(late);
	} else {
		add(barrier, &waiter->wait);
		unlock(barrier, arrived);
		result = sleep_until_woken(barrier, waiter, interruptible);
	}
	tek__leave();
	return result;
}

int tek__barrier_go_on(struct tek_barrier *barrier, struct tek_barrier_waiter *waiter)
{
	int result = 0;

	/* It is in the list still, or is told by the one who took it out. */
	tek__enter();
	if (tek__change(&waiter->wait.state, TEK_INTERRUPTED, TEK_WAITING))
		result = sleep_until_woken(barrier, waiter, true);
	tek__leave();
	return result;
}

bool tek__barrier_is_used(struct tek_barrier *barrier)
{
	return atomic_load_explicit(&barrier->arrived, memory_order_relaxed) != 0;
}
