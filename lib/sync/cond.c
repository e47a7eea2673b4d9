/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/cond.h"

#include "sync/futex.h"
#include "sync/guard.h"

#include <pthread.h>
#include <unistd.h>

/*
 * A waiter's state. LISTED has two successors, and the thread that changes the word decides: the
 * waker, or the waiter that gives up.
 */
enum {
	LISTED,
	SIGNALLED, /* out of the list, to be woken, while another waited: one of `owing` */
	LAST,      /* the same, with no other waiter: by a broadcast, or a signal to the only one */
	LEAVING,   /* takes itself out */
};

/* ---- under the lock of the list ---- */

/*
 * True if the list belongs to this process. A list of the parent has no waiters here. A list of a
 * child that shares the memory of *cond has none that this process could wake.
 */
static bool is_ours(const struct tek_sync_cond *cond)
{
	return cond->process == tek_sync__process();
}

static struct tek_sync_cond_waiter *first_of(struct tek_sync_cond *cond)
{
	return is_ours(cond) ? atomic_load_explicit(&cond->first, memory_order_relaxed) : NULL;
}

static void add(struct tek_sync_cond *cond, struct tek_sync_cond_waiter *waiter)
{
	struct tek_sync_cond_waiter *const first = first_of(cond);
	struct tek_sync_cond_waiter *before = first ? cond->last : NULL;

	if (!is_ours(cond))
		cond->owing = 0;
	cond->process = tek_sync__process();
	/* An ordinary thread goes to the end at once. */
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

static void take_out(struct tek_sync_cond *cond, struct tek_sync_cond_waiter *waiter)
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

/* Returns whether it was LISTED. The list's lock orders all other accesses. */
static bool change(struct tek_sync_cond_waiter *waiter, unsigned int to)
{
	unsigned int listed = LISTED;
	return atomic_compare_exchange_strong_explicit(&waiter->place, &listed, to,
						       memory_order_relaxed, memory_order_relaxed);
}

/* ---- called by the waiter ---- */

void tek_sync__cond_enter(struct tek_sync_cond *cond, struct tek_sync_cond_waiter *waiter)
{
	tek_sync__sleeper_init(&waiter->sleeper);
	atomic_init(&waiter->place, LISTED);
	waiter->urgency = tek_sync__urgency();
	tek_sync__guard_hold(&cond->held);
	add(cond, waiter);
	tek_sync__guard_let_go(&cond->held);
}

/* True: no thread wakes it, and it is out of the list. False: it is about to be woken. */
static bool withdraw(struct tek_sync_cond *cond, struct tek_sync_cond_waiter *waiter)
{
	if (!change(waiter, LEAVING))
		return false;
	tek_sync__guard_hold(&cond->held);
	if (is_ours(cond))
		take_out(cond, waiter);
	tek_sync__guard_let_go(&cond->held);
	return true;
}

/*
 * True if it was signalled while another thread waited: if cancelled, it has to hand that signal
 * on.
 */
static bool is_owing(struct tek_sync_cond_waiter *waiter)
{
	return atomic_load_explicit(&waiter->place, memory_order_relaxed) == SIGNALLED;
}

/*
 * Takes one from `owing`: the waiter's last access to the condition variable, which may be gone
 * then.
 */
static void be_quits(struct tek_sync_cond *cond)
{
	tek_sync__guard_hold(&cond->held);
	if (is_ours(cond) && cond->owing)
		cond->owing--;
	tek_sync__guard_let_go(&cond->held);
}

static bool is_awake(struct tek_sync_cond_waiter *waiter)
{
	return atomic_load_explicit(&waiter->sleeper.awake, memory_order_acquire) != 0;
}

/*
 * A cancellation may still be on its way to a thread that has left PTHREAD_CANCEL_ASYNCHRONOUS, and
 * arrive even after its start routine has returned. pthread_join(3) then reports PTHREAD_CANCELED
 * for a thread that was not cancelled (glibc 2.36). The C library's cancellation points wait for
 * that at their end; this one does nothing else. Programs may replace read(2), but not this name.
 */
extern ssize_t __read(int file, void *bytes, size_t size);

static void let_cancellation_arrive(void)
{
	const int before = errno;

	(void)!__read(-1, NULL, 0);
	errno = before;
}

/*
 * One sleep that a cancellation interrupts. The C library cancels in its own system calls only, or,
 * if asynchronous, anywhere: so that is enabled for the sleep alone. An engine wakes its thread and
 * leaves the rest to the next cancellation point.
 */
static int sleep_cancellably(struct tek_sync_cond_waiter *waiter, struct tek_until until)
{
	int error, type;

	if (waiter->sleeper.thread) {
		error = tek_sync__host->park(until);
		pthread_testcancel();
		return error;
	}
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	error = tek_sync__futex_wait_until(&waiter->sleeper.awake, 0, until);
	pthread_setcanceltype(type, NULL);
	let_cancellation_arrive();
	return error;
}

int tek_sync__cond_sleep(struct tek_sync_cond *cond, struct tek_sync_cond_waiter *waiter,
			 struct tek_until until)
{
	int error = 0;

	while (!is_awake(waiter) && !error)
		error = sleep_cancellably(waiter, until);
	if (!is_awake(waiter) && withdraw(cond, waiter))
		return error;
	/* The waker needs *waiter until it has let it go. */
	tek_sync__sleep(&waiter->sleeper, TEK_FOR_EVER);
	if (is_owing(waiter))
		be_quits(cond);
	return 0;
}

void tek_sync__cond_leave(struct tek_sync_cond *cond, struct tek_sync_cond_waiter *waiter)
{
	if (withdraw(cond, waiter))
		return;
	tek_sync__sleep(&waiter->sleeper, TEK_FOR_EVER);
	/*
	 * If no other thread waited, no signal has to be handed on, and the condition variable may
	 * be gone.
	 */
	if (is_owing(waiter)) {
		tek_sync__cond_signal(cond);
		be_quits(cond);
	}
}

/* ---- called by the waker ---- */

/*
 * A waiter is seen here without the list's lock, if its unlock, or another synchronisation with the
 * caller, came after it had entered.
 */
static bool is_empty(struct tek_sync_cond *cond)
{
	return atomic_load_explicit(&cond->first, memory_order_relaxed) == NULL;
}

void tek_sync__cond_signal(struct tek_sync_cond *cond)
{
	struct tek_sync_cond_waiter *waiter;

	if (is_empty(cond))
		return;
	tek_sync__guard_hold(&cond->held);
	for (waiter = first_of(cond); waiter; waiter = waiter->next) {
		const bool only = !waiter->next && !waiter->previous;
		if (!change(waiter, only ? LAST : SIGNALLED))
			continue;
		take_out(cond, waiter);
		cond->owing += !only;
		break;
	}
	tek_sync__guard_let_go(&cond->held);
	if (waiter)
		tek_sync__awaken(&waiter->sleeper);
}

void tek_sync__cond_broadcast(struct tek_sync_cond *cond)
{
	struct tek_sync_cond_waiter *woken = NULL, **end = &woken;

	if (is_empty(cond))
		return;
	tek_sync__guard_hold(&cond->held);
	for (struct tek_sync_cond_waiter *waiter = first_of(cond), *next; waiter; waiter = next) {
		next = waiter->next;
		if (!change(waiter, LAST))
			continue;
		take_out(cond, waiter);
		*end = waiter;
		end = &waiter->next;
	}
	*end = NULL;
	tek_sync__guard_let_go(&cond->held);
	while (woken) {
		struct tek_sync_cond_waiter *next = woken->next;
		tek_sync__awaken(&woken->sleeper);
		woken = next;
	}
}

/* The thread that it waits for may be of lower priority, on this CPU. */
#define NAP_NS 50000

int tek_sync__cond_destroy(struct tek_sync_cond *cond)
{
	bool used = false, left = true;

	for (unsigned int iterations = 0; left && !used; iterations++) {
		if (iterations >= TEK_SPIN_ITERATIONS)
			tek_sync__nap(NAP_NS);
		else if (iterations)
			tek_sync__iterate();
		tek_sync__guard_hold(&cond->held);
		struct tek_sync_cond_waiter *waiter = first_of(cond);
		left = waiter || (is_ours(cond) && cond->owing);
		for (; waiter; waiter = waiter->next)
			used |= atomic_load_explicit(&waiter->place, memory_order_relaxed) ==
				LISTED;
		tek_sync__guard_let_go(&cond->held);
	}
	return used ? EBUSY : 0;
}
