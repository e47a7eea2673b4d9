/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/cond.h"

#include "sync/futex.h"
#include "sync/guard.h"

#include <pthread.h>
#include <unistd.h>

/*
 * Where a waiter is.  From LISTED one of two ways leads on, and who changes the word decides which: the one who wakes, or
 * the one who waits and gives up.
 */
enum {
	LISTED,
	SIGNALLED, /* out of the list, about to be woken, and others waited still: one of `owing` */
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

	if (!is_ours(cond))
		cond->owing = 0;
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

/* Whether it was LISTED.  The list's lock orders all else. */
static bool change(struct tek_cond_waiter *waiter, unsigned int to)
{
	unsigned int listed = LISTED;
	return atomic_compare_exchange_strong_explicit(&waiter->place, &listed, to,
						       memory_order_relaxed, memory_order_relaxed);
}

/* ---- by who waits ---- */

void tek__cond_enter(struct tek_cond *cond, struct tek_cond_waiter *waiter)
{
	tek__sleeper_init(&waiter->sleeper);
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

/* Whether it was signalled while others waited: if it is cancelled it owes them that signal. */
static bool is_owing(struct tek_cond_waiter *waiter)
{
	return atomic_load_explicit(&waiter->place, memory_order_relaxed) == SIGNALLED;
}

/* One of `owing` less, as the last thing that it does with the condition variable, which may be gone then. */
static void be_quits(struct tek_cond *cond)
{
	tek__guard_hold(&cond->held);
	if (is_ours(cond) && cond->owing)
		cond->owing--;
	tek__guard_let_go(&cond->held);
}

static bool is_awake(struct tek_cond_waiter *waiter)
{
	return atomic_load_explicit(&waiter->sleeper.awake, memory_order_acquire) != 0;
}

/*
 * One that has left PTHREAD_CANCEL_ASYNCHRONOUS may have a cancellation on its way to it still, which comes wherever it is
 * then: even when it has returned from its first function, and pthread_join(3) says PTHREAD_CANCELED of a thread that was
 * not cancelled (glibc 2.36).  The C library's points of cancellation wait for that at their end: this is one that does
 * nothing else, for a system call that fails at once.  Programs have functions of their own for read(2), but not of this name.
 */
extern ssize_t __read(int file, void *bytes, size_t size);

static void let_cancellation_arrive(void)
{
	const int before = errno;

	(void)!__read(-1, NULL, 0);
	errno = before;
}

/*
 * One sleep, of which a cancellation ends the thread.  The C library does that in its own system calls only, or
 * wherever the thread is; so this is allowed for as long as it sleeps here, and nothing else is in it.  An engine wakes
 * its thread and leaves the rest to the next point of cancellation.
 */
static int sleep_cancellably(struct tek_cond_waiter *waiter, struct tek_until until)
{
	int error, type;

	if (waiter->sleeper.thread) {
		error = tek__sync_host->park(until);
		pthread_testcancel();
		return error;
	}
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	error = tek__futex_wait_until(&waiter->sleeper.awake, 0, until);
	pthread_setcanceltype(type, NULL);
	let_cancellation_arrive();
	return error;
}

int tek__cond_sleep(struct tek_cond *cond, struct tek_cond_waiter *waiter, struct tek_until until)
{
	int error = 0;

	while (!is_awake(waiter) && !error)
		error = sleep_cancellably(waiter, until);
	if (!is_awake(waiter) && withdraw(cond, waiter))
		return error;
	/* *waiter is needed by who wakes it, until it has been let go. */
	tek__sleep(&waiter->sleeper, TEK_FOR_EVER);
	if (is_owing(waiter))
		be_quits(cond);
	return 0;
}

void tek__cond_leave(struct tek_cond *cond, struct tek_cond_waiter *waiter)
{
	if (withdraw(cond, waiter))
		return;
	tek__sleep(&waiter->sleeper, TEK_FOR_EVER);
	/* If nobody else waited then, nobody is owed a signal, and the condition variable may be gone. */
	if (is_owing(waiter)) {
		tek__cond_signal(cond);
		be_quits(cond);
	}
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
		if (!change(waiter, only ? LAST : SIGNALLED))
			continue;
		take_out(cond, waiter);
		cond->owing += !only;
		break;
	}
	tek__guard_let_go(&cond->held);
	if (waiter)
		tek__awaken(&waiter->sleeper);
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
		tek__awaken(&woken->sleeper);
		woken = next;
	}
}

/* Whom it waits for may be of lesser priority, and of this CPU. */
#define NAP_NS 50000

int tek__cond_destroy(struct tek_cond *cond)
{
	bool used = false, left = true;

	for (unsigned int turns = 0; left && !used; turns++) {
		if (turns >= TEK_TURNS)
			tek__nap(NAP_NS);
		else if (turns)
			tek__turn();
		tek__guard_hold(&cond->held);
		struct tek_cond_waiter *waiter = first_of(cond);
		left = waiter || (is_ours(cond) && cond->owing);
		for (; waiter; waiter = waiter->next)
			used |= atomic_load_explicit(&waiter->place, memory_order_relaxed) ==
				LISTED;
		tek__guard_let_go(&cond->held);
	}
	return used ? EBUSY : 0;
}
