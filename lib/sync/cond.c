/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/cond.h"

#include "sync/futex.h"
#include "sync/guard.h"

#include <pthread.h>

/*
 * Where a waiter is.  From LISTED one of two ways leads on, and who changes the word decides which: the one who wakes, or
 * the one who waits and gives up.
 */
enum {
	LISTED,
	SIGNALLED, /* out of the list, about to be woken, and others waited still */
	LAST,    /* the same, and nobody else waited: by a broadcast, or a signal to the only one */
	LEAVING, /* takes itself out */
};

/* ---- under the lock of the list ---- */

/*
 * Whether the list is of this process.  If it is of the one that forked this one, nobody is here who waits; and if of a
 * child that has the memory of *cond in common, nobody whom this one could wake.
 */
static bool is_ours(const struct tek_cond *cond)
{
	return cond->process == tek__process();
}

static struct tek_cond_waiter *first_of(struct tek_cond *cond)
{
	return is_ours(cond) ? atomic_load_explicit(&cond->first, memory_order_relaxed) : NULL;
}

static void add(struct tek_cond *cond, struct tek_cond_waiter *waiter)
{
	struct tek_cond_waiter *const first = first_of(cond);
	struct tek_cond_waiter *before = first ? cond->last : NULL;

	cond->process = tek__process();
	/* An ordinary thread is the last one without a look. */
	while (before && before->urgency < waiter->urgency)
		before = before->previous;
	waiter->previous = before;
	waiter->next = before ? before->next : first;
	if (before)
		before->next = waiter;
	else
		atomic_store_explicit(&cond->first, waiter, memory_order_relaxed);
	if (waiter->next)
		waiter->next->previous = waiter;
	else
		cond->last = waiter;
}

static void take_out(struct tek_cond *cond, struct tek_cond_waiter *waiter)
{
	if (waiter->previous)
		waiter->previous->next = waiter->next;
	else
		atomic_store_explicit(&cond->first, waiter->next, memory_order_relaxed);
	if (waiter->next)
		waiter->next->previous = waiter->previous;
	else
		cond->last = waiter->previous;
}

/* Whether it was LISTED.  Releases what was done to *waiter: it may be gone, once it has been woken. */
static bool change(struct tek_cond_waiter *waiter, unsigned int to)
{
	unsigned int listed = LISTED;
	return atomic_compare_exchange_strong_explicit(&waiter->place, &listed, to,
						       memory_order_release, memory_order_relaxed);
}

/* ---- by who waits ---- */

void tek__cond_enter(struct tek_cond *cond, struct tek_cond_waiter *waiter)
{
	tek__sleeper_init(&waiter->sleeper);
	if (!waiter->sleeper.thread)
		tek__cancellable_init(&waiter->cancellable);
	atomic_init(&waiter->place, LISTED);
	waiter->urgency = tek__urgency();
	tek__guard_hold(&cond->held);
	add(cond, waiter);
	tek__guard_let_go(&cond->held);
}

/* Whether nobody wakes it; then it is out of the list, and else about to be woken. */
static bool withdraw(struct tek_cond *cond, struct tek_cond_waiter *waiter)
{
	if (!change(waiter, LEAVING))
		return false;
	tek__guard_hold(&cond->held);
	if (is_ours(cond))
		take_out(cond, waiter);
	tek__guard_let_go(&cond->held);
	return true;
}

/* Until it is woken.  An engine wakes its thread that is cancelled, and leaves the rest to the next point of cancellation. */
static int sleep_cancellably(struct tek_cond_waiter *waiter, struct tek_until until)
{
	struct tek_sleeper *const sleeper = &waiter->sleeper;
	int error = 0;

	if (!sleeper->thread)
		return tek__cancellable_sleep(&waiter->cancellable, until);
	while (!tek__is_awake(sleeper) && !error) {
		error = tek__sync_host->park(until);
		pthread_testcancel();
	}
	/* *sleeper is needed by who wakes it, until it has been let go. */
	return tek__is_awake(sleeper) ? tek__sleep(sleeper, TEK_FOR_EVER) : error;
}

static void wake(struct tek_cond_waiter *waiter)
{
	if (waiter->sleeper.thread)
		tek__awaken(&waiter->sleeper);
	else
		tek__cancellable_awaken(&waiter->cancellable);
}

static unsigned int place_of(struct tek_cond_waiter *waiter)
{
	return atomic_load_explicit(&waiter->place, memory_order_acquire);
}

int tek__cond_sleep(struct tek_cond *cond, struct tek_cond_waiter *waiter, struct tek_until until)
{
	int error = sleep_cancellably(waiter, until);

	if (error && withdraw(cond, waiter))
		return error;
	if (error)
		sleep_cancellably(waiter, TEK_FOR_EVER);
	/* For ThreadSanitizer, which does not see how a kernel thread slept. */
	(void)place_of(waiter);
	return 0;
}

void tek__cond_leave(struct tek_cond *cond, struct tek_cond_waiter *waiter)
{
	int state;

	if (withdraw(cond, waiter))
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	sleep_cancellably(waiter, TEK_FOR_EVER);
	pthread_setcancelstate(state, NULL);
	/* If nobody else waited then, nobody is owed a signal, and the condition variable may be gone. */
	if (place_of(waiter) == SIGNALLED)
		tek__cond_signal(cond);
}

/* ---- by others ---- */

/*
 * Who unlocked the lock, or told the caller in any other way, after it had entered, is seen here without the list's lock.
 */
static bool is_empty(struct tek_cond *cond)
{
	return atomic_load_explicit(&cond->first, memory_order_relaxed) == NULL;
}

void tek__cond_signal(struct tek_cond *cond)
{
	struct tek_cond_waiter *waiter;

	if (is_empty(cond))
		return;
	tek__guard_hold(&cond->held);
	for (waiter = first_of(cond); waiter; waiter = waiter->next) {
		const bool only = !waiter->next && !waiter->previous;
		if (change(waiter, only ? LAST : SIGNALLED))
			break;
	}
	if (waiter)
		take_out(cond, waiter);
	tek__guard_let_go(&cond->held);
	if (waiter)
		wake(waiter);
}

void tek__cond_broadcast(struct tek_cond *cond)
{
	struct tek_cond_waiter *woken = NULL, **end = &woken;

	if (is_empty(cond))
		return;
	tek__guard_hold(&cond->held);
	for (struct tek_cond_waiter *waiter = first_of(cond), *next; waiter; waiter = next) {
		next = waiter->next;
		if (!change(waiter, LAST))
			continue;
		take_out(cond, waiter);
		*end = waiter;
		end = &waiter->next;
	}
	*end = NULL;
	tek__guard_let_go(&cond->held);
	while (woken) {
		struct tek_cond_waiter *next = woken->next;
		wake(woken);
		woken = next;
	}
}

int tek__cond_destroy(struct tek_cond *cond)
{
	struct tek_spinning spinning = {0};
	bool used = false, left = true;

	while (left && !used) {
		tek__guard_hold(&cond->held);
		struct tek_cond_waiter *waiter = first_of(cond);
		left = waiter != NULL;
		for (; waiter; waiter = waiter->next)
			used |= atomic_load_explicit(&waiter->place, memory_order_relaxed) ==
				LISTED;
		tek__guard_let_go(&cond->held);
		if (left && !used)
			tek__spin(&spinning);
	}
	return used ? EBUSY : 0;
}
