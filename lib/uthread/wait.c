/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/wait.h"

#include "uthread/clock.h"
#include "uthread/events.h"
#include "uthread/idle.h"
#include "uthread/preempt.h"
#include "uthread/worker.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Those who wait until a time, at most. */
static struct {
	struct tek_spin lock;
	struct tek_heap heap;
	uint64_t order;
	atomic_uint count;
} timers;

/* How often the process, or those it comes from, forked. */
static unsigned int forks;

static struct tek_waiter *of_timer(struct tek_heap_node *node)
{
	return (struct tek_waiter *)((char *)node - offsetof(struct tek_waiter, timer));
}

void tek__waiter_init(struct tek_waiter *waiter)
{
	waiter->next = waiter->previous = NULL;
	waiter->listed = waiter->timed = false;
	waiter->data = NULL;
	waiter->thread = tek__here_self();
	waiter->forks = forks;
	atomic_store_explicit(&waiter->state, TEK_WAITING, memory_order_relaxed);
}

static void insert_after(struct tek_waiters *list, struct tek_waiter *place,
			 struct tek_waiter *waiter)
{
	waiter->previous = place;
	waiter->next = place ? place->next : list->first;
	if (waiter->next)
		waiter->next->previous = waiter;
	else
		list->last = waiter;
	if (place)
		place->next = waiter;
	else
		tek__waiters_set_first(list, waiter);
	waiter->listed = true;
}

void tek__waiters_add(struct tek_waiters *list, struct tek_waiter *waiter)
{
	insert_after(list, list->last, waiter);
}

/* Kernel threads have none that we know of: as that of most. */
static int rank(const struct tek_waiter *waiter)
{
	if (!waiter->thread)
		return 0;
	return waiter->thread->sched.priority + (waiter->thread->sched.critical ? 256 : 0);
}

void tek__waiters_add_among_others(struct tek_waiters *list, struct tek_waiter *waiter)
{
	struct tek_waiter *place = list->last;
	while (place && rank(place) < rank(waiter))
		place = place->previous;
	insert_after(list, place, waiter);
}

void tek__waiters_remove(struct tek_waiters *list, struct tek_waiter *waiter)
{
	if (!waiter->listed)
		return;
	if (waiter->previous)
		waiter->previous->next = waiter->next;
	else
		tek__waiters_set_first(list, waiter->next);
	if (waiter->next)
		waiter->next->previous = waiter->previous;
	else
		list->last = waiter->previous;
	waiter->listed = false;
}

bool tek__wake(struct tek_waiter *waiter, enum tek_wake how)
{
	struct tek_uthread *thread = waiter->thread;

	/* Lists of mutexes and the like go into the child of a fork(), with those who are not there any more. */
	if (__builtin_expect(waiter->forks != forks, 0) ||
	    !tek__change(&waiter->state, TEK_WAITING, how))
		return false;
	/* From here on *waiter may be gone.  A user-level thread is never unmapped; a futex may be anything. */
	if (thread)
		tek__unpark(thread);
	else
		syscall(SYS_futex, &waiter->state, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	return true;
}

bool tek__wake_first(struct tek_waiters *list)
{
	for (struct tek_waiter *waiter = list->first; waiter; waiter = list->first) {
		tek__waiters_remove(list, waiter);
		if (tek__wake(waiter, TEK_WOKEN))
			return true;
	}
	return false;
}

bool tek__timers_any(void)
{
	return atomic_load_explicit(&timers.count, memory_order_relaxed) != 0;
}

static void add_timer(struct tek_waiter *waiter, uint64_t deadline)
{
	tek__spin_lock(&timers.lock);
	waiter->timer.key = deadline;
	waiter->timer.order = timers.order++;
	waiter->timed = true;
	tek__heap_add(&timers.heap, &waiter->timer);
	atomic_fetch_add_explicit(&timers.count, 1, memory_order_relaxed);
	bool first = tek__heap_first(&timers.heap) == &waiter->timer;
	tek__spin_unlock(&timers.lock);
	if (first && tek__parallel())
		tek__idle_timer_changed(deadline);
}

static void remove_timer(struct tek_waiter *waiter)
{
	tek__spin_lock(&timers.lock);
	if (waiter->timed) {
		tek__heap_remove(&timers.heap, &waiter->timer);
		waiter->timed = false;
		atomic_fetch_sub_explicit(&timers.count, 1, memory_order_relaxed);
	}
	tek__spin_unlock(&timers.lock);
}

uint64_t tek__timers_run(void)
{
	struct tek_heap_node *node;
	uint64_t left = UINT64_MAX;

	if (!tek__timers_any())
		return left;
	uint64_t now = tek__now();
	tek__spin_lock(&timers.lock);
	while ((node = tek__heap_first(&timers.heap)) && node->key <= now) {
		struct tek_waiter *waiter = of_timer(node);
		tek__heap_remove(&timers.heap, node);
		waiter->timed = false;
		atomic_fetch_sub_explicit(&timers.count, 1, memory_order_relaxed);
		/* Its owner takes the lock before it forgets the waiter: remove_timer(). */
		tek__wake(waiter, TEK_TIMED_OUT);
	}
	if (node)
		left = node->key - now;
	tek__spin_unlock(&timers.lock);
	return left;
}

static enum tek_wake state_of(struct tek_waiter *waiter)
{
	return atomic_load_explicit(&waiter->state, memory_order_acquire);
}

/* A kernel thread, which nobody else runs on. */
static enum tek_wake wait_in_kernel(struct tek_waiter *waiter, const struct timespec *deadline)
{
	while (state_of(waiter) == TEK_WAITING) {
		/* FUTEX_WAIT_BITSET takes an absolute time of CLOCK_MONOTONIC: futex(2). */
		long result = syscall(SYS_futex, &waiter->state, FUTEX_WAIT_BITSET_PRIVATE,
				      TEK_WAITING, deadline, NULL, FUTEX_BITSET_MATCH_ANY);
		if (result && errno == ETIMEDOUT)
			tek__change(&waiter->state, TEK_WAITING, TEK_TIMED_OUT);
	}
	return state_of(waiter);
}

static inline enum tek_wake wait_for_ever(struct tek_waiter *waiter, const char *what)
{
	struct tek_uthread *self = waiter->thread;

	self->waits_for = what;
	tek__shown_waits(self, true);
	while (state_of(waiter) == TEK_WAITING)
		tek__park();
	self->waits_for = NULL;
	tek__shown_waits(self, false);
	return state_of(waiter);
}

/* Not into its callers, for most waits have no time. */
__attribute__((noinline)) static enum tek_wake
wait_until(struct tek_waiter *waiter, const struct timespec *deadline, const char *what)
{
	add_timer(waiter, tek__ns_of(deadline));
	enum tek_wake how = wait_for_ever(waiter, what);
	remove_timer(waiter);
	return how;
}

static inline enum tek_wake wait(struct tek_waiter *waiter, const struct timespec *deadline,
				 const char *what)
{
	return __builtin_expect(deadline != NULL, 0) ? wait_until(waiter, deadline, what)
						     : wait_for_ever(waiter, what);
}

enum tek_wake tek__wait_deferred(struct tek_waiter *waiter, const struct timespec *deadline,
				 const char *what)
{
	return __builtin_expect(waiter->thread != NULL, 1) ? wait(waiter, deadline, what)
							   : wait_in_kernel(waiter, deadline);
}

enum tek_wake tek__wait(struct tek_waiter *waiter, const struct timespec *deadline,
			const char *what)
{
	if (!waiter->thread)
		return wait_in_kernel(waiter, deadline);
	tek__enter();
	enum tek_wake how = wait(waiter, deadline, what);
	tek__leave();
	return how;
}

enum tek_wake tek__wait_interruptible(struct tek_waiter *waiter, const struct timespec *deadline,
				      const char *what)
{
	struct tek_uthread *self = waiter->thread;

	if (!self)
		return wait_in_kernel(waiter, deadline);
	tek__enter();
	tek__spin_lock(&self->interrupt_lock);
	if (self->interrupted) {
		self->interrupted = false;
		tek__change(&waiter->state, TEK_WAITING, TEK_INTERRUPTED);
	} else {
		self->interruptible = waiter;
	}
	tek__spin_unlock(&self->interrupt_lock);

	enum tek_wake how = wait(waiter, deadline, what);

	tek__spin_lock(&self->interrupt_lock);
	self->interruptible = NULL;
	if (how == TEK_INTERRUPTED)
		self->interrupted = false;
	tek__spin_unlock(&self->interrupt_lock);
	tek__leave();
	return how;
}

void tek__interrupt(struct tek_uthread *thread)
{
	tek__spin_lock(&thread->interrupt_lock);
	thread->interrupted = true;
	if (thread->interruptible)
		tek__wake(thread->interruptible, TEK_INTERRUPTED);
	tek__spin_unlock(&thread->interrupt_lock);
}

void tek__wait_after_fork(void)
{
	forks++;
	timers.heap.root = NULL;
	atomic_store(&timers.count, 0);
	atomic_store(&timers.lock.held, 0);
}
