/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/wait.h"

#include "base/clock.h"
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

/* Waiters with a deadline. */
static struct {
	struct tek_spin lock;
	struct tek_heap heap;
	uint64_t order;
	atomic_uint count;
} timers;

#define PAUSE_NS 50000

unsigned int tek_ut__process;

const char *const tek_ut__waits_words[TEK_WAITS_WORDS] = {
	[TEK_WAITS_NO] = "",
	[TEK_WAITS_OTHER] = "other",
	[TEK_WAITS_MUTEX] = "mutex",
	[TEK_WAITS_COND] = "cond",
	[TEK_WAITS_RWLOCK] = "rwlock",
	[TEK_WAITS_BARRIER] = "barrier",
	[TEK_WAITS_SEMAPHORE] = "semaphore",
	[TEK_WAITS_ONCE] = "once",
	[TEK_WAITS_JOIN] = "join",
	[TEK_WAITS_FILE] = "file",
	[TEK_WAITS_SLEEP] = "sleep",
	[TEK_WAITS_SIGNAL] = "signal",
	[TEK_WAITS_PAUSE] = "pause",
};

static struct tek_waiter *of_timer(struct tek_heap_node *node)
{
	return (struct tek_waiter *)((char *)node - offsetof(struct tek_waiter, timer));
}

void tek_ut__waiter_init(struct tek_waiter *waiter)
{
	waiter->listed = waiter->timed = false;
	waiter->data = NULL;
	waiter->thread = tek_ut__here_self();
	waiter->process = tek_ut__process;
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
		tek_ut__waiters_set_first(list, waiter);
	waiter->listed = true;
}

void tek_ut__waiters_add(struct tek_waiters *list, struct tek_waiter *waiter)
{
	insert_after(list, list->last, waiter);
}

int tek_ut__rank(const struct tek_uthread *thread)
{
	return thread ? thread->sched.priority + (thread->sched.critical ? 256 : 0) : 0;
}

int tek_ut__waiter_rank(const struct tek_waiter *waiter)
{
	return tek_ut__rank(waiter->thread);
}

__attribute__((noinline)) void tek_ut__waiters_insert_by_priority(struct tek_waiters *list,
								  struct tek_waiter *waiter)
{
	struct tek_waiter *place = list->last;
	while (place && tek_ut__waiter_rank(place) < tek_ut__waiter_rank(waiter))
		place = place->previous;
	insert_after(list, place, waiter);
}

void tek_ut__waiters_remove(struct tek_waiters *list, struct tek_waiter *waiter)
{
	if (!waiter->listed)
		return;
	struct tek_waiter *next = waiter->next, *previous = waiter->previous;
	/* Mostly it is the only one. */
	if (__builtin_expect(previous != NULL, 0))
		previous->next = next;
	else
		tek_ut__waiters_set_first(list, next);
	if (__builtin_expect(next != NULL, 0))
		next->previous = previous;
	else
		list->last = previous;
	waiter->listed = false;
}

static inline bool end_wait(struct tek_waiter *waiter, enum tek_wake how)
{
	/*
	 * Lists of mutexes and the like go into the child of a fork(), with waiters of lost
	 * threads.
	 */
	return __builtin_expect(waiter->process == tek_ut__process, 1) &&
	       tek_ut__change(&waiter->state, TEK_WAITING, how);
}

/* *waiter may be gone by now.  A user-level thread is never unmapped; a futex may be anything. */
static inline void wake(struct tek_waiter *waiter, struct tek_uthread *thread)
{
	if (thread)
		tek_ut__unpark(thread);
	else
		syscall(SYS_futex, &waiter->state, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

bool tek_ut__wake(struct tek_waiter *waiter, enum tek_wake how)
{
	struct tek_uthread *thread = waiter->thread;

	if (!end_wait(waiter, how))
		return false;
	wake(waiter, thread);
	return true;
}

bool tek_ut__claim(struct tek_waiter *waiter)
{
	return end_wait(waiter, TEK_CLAIMED);
}

void tek_ut__wake_claimed(struct tek_waiter *waiter)
{
	struct tek_uthread *thread = waiter->thread;

	atomic_store_explicit(&waiter->state, TEK_WOKEN, memory_order_release);
	wake(waiter, thread);
}

void tek_ut__wake_all_claimed(struct tek_waiters *claimed)
{
	for (struct tek_waiter *waiter = claimed->first, *next; waiter; waiter = next) {
		next = waiter->next;
		tek_ut__wake_claimed(waiter);
	}
}

struct tek_waiter *tek_ut__claim_first(struct tek_waiters *list)
{
	for (struct tek_waiter *waiter = list->first; waiter; waiter = list->first) {
		tek_ut__waiters_remove(list, waiter);
		if (tek_ut__claim(waiter))
			return waiter;
	}
	return NULL;
}

bool tek_ut__wake_first(struct tek_waiters *list)
{
	for (struct tek_waiter *waiter = list->first; waiter; waiter = list->first) {
		tek_ut__waiters_remove(list, waiter);
		if (tek_ut__wake(waiter, TEK_WOKEN))
			return true;
	}
	return false;
}

bool tek_ut__timers_any(void)
{
	return atomic_load_explicit(&timers.count, memory_order_relaxed) != 0;
}

static void add_timer(struct tek_waiter *waiter, uint64_t deadline)
{
	tek_ut__spin_lock(&timers.lock);
	waiter->timer.key = deadline;
	waiter->timer.order = timers.order++;
	waiter->timed = true;
	tek_ut__heap_add(&timers.heap, &waiter->timer);
	atomic_fetch_add_explicit(&timers.count, 1, memory_order_relaxed);
	bool first = tek_ut__heap_first(&timers.heap) == &waiter->timer;
	tek_ut__spin_unlock(&timers.lock);
	if (first && tek_ut__parallel())
		tek_ut__idle_timer_changed(deadline);
}

static void remove_timer(struct tek_waiter *waiter)
{
	tek_ut__spin_lock(&timers.lock);
	if (waiter->timed) {
		tek_ut__heap_remove(&timers.heap, &waiter->timer);
		waiter->timed = false;
		atomic_fetch_sub_explicit(&timers.count, 1, memory_order_relaxed);
	}
	tek_ut__spin_unlock(&timers.lock);
}

uint64_t tek_ut__timers_run(void)
{
	struct tek_heap_node *node;

	if (!tek_ut__timers_any())
		return UINT64_MAX;
	uint64_t now = tek__now(CLOCK_MONOTONIC);
	tek_ut__spin_lock(&timers.lock);
	while ((node = tek_ut__heap_first(&timers.heap)) && node->key <= now) {
		struct tek_waiter *waiter = of_timer(node);
		tek_ut__heap_remove(&timers.heap, node);
		waiter->timed = false;
		atomic_fetch_sub_explicit(&timers.count, 1, memory_order_relaxed);
		/* Its owner takes the lock before it forgets the waiter: remove_timer(). */
		tek_ut__wake(waiter, TEK_TIMED_OUT);
	}
	const uint64_t next = node ? node->key : UINT64_MAX;
	tek_ut__spin_unlock(&timers.lock);
	return next;
}

static enum tek_wake state_of(struct tek_waiter *waiter)
{
	return atomic_load_explicit(&waiter->state, memory_order_acquire);
}

/* A kernel thread, on which no other thread runs. */
__attribute__((noinline)) static enum tek_wake wait_in_kernel(struct tek_waiter *waiter,
							      const struct timespec *deadline)
{
	for (enum tek_wake how; (how = state_of(waiter)) <= TEK_CLAIMED;) {
		/* FUTEX_WAIT_BITSET takes an absolute time of CLOCK_MONOTONIC: futex(2). */
		long result = syscall(SYS_futex, &waiter->state, FUTEX_WAIT_BITSET_PRIVATE, how,
				      deadline, NULL, FUTEX_BITSET_MATCH_ANY);
		if (result && errno == ETIMEDOUT)
			tek_ut__change(&waiter->state, TEK_WAITING, TEK_TIMED_OUT);
	}
	return state_of(waiter);
}

static inline enum tek_wake wait_for_ever(struct tek_waiter *waiter, unsigned char what)
{
	struct tek_uthread *self = waiter->thread;

	self->waits_for = what;
	tek_ut__shown_lives(self);
	tek_ut__shown_waits(self, what);
	while (state_of(waiter) <= TEK_CLAIMED)
		tek_ut__park();
	self->waits_for = TEK_WAITS_NO;
	tek_ut__shown_waits(self, TEK_WAITS_NO);
	return state_of(waiter);
}

/* Not inlined into its callers, as most waits have no time. */
__attribute__((noinline)) static enum tek_wake
wait_until(struct tek_waiter *waiter, const struct timespec *deadline, unsigned char what)
{
	add_timer(waiter, tek__ns_of(deadline));
	enum tek_wake how = wait_for_ever(waiter, what);
	remove_timer(waiter);
	return how;
}

static inline enum tek_wake wait(struct tek_waiter *waiter, const struct timespec *deadline,
				 unsigned char what)
{
	return __builtin_expect(deadline != NULL, 0) ? wait_until(waiter, deadline, what)
						     : wait_for_ever(waiter, what);
}

enum tek_wake tek_ut__wait_deferred(struct tek_waiter *waiter, const struct timespec *deadline,
				    unsigned char what)
{
	return __builtin_expect(waiter->thread != NULL, 1) ? wait(waiter, deadline, what)
							   : wait_in_kernel(waiter, deadline);
}

enum tek_wake tek_ut__wait(struct tek_waiter *waiter, const struct timespec *deadline,
			   unsigned char what)
{
	if (!waiter->thread)
		return wait_in_kernel(waiter, deadline);
	tek_ut__enter();
	enum tek_wake how = wait(waiter, deadline, what);
	tek_ut__leave();
	return how;
}

enum tek_wake tek_ut__wait_interruptible(struct tek_waiter *waiter, const struct timespec *deadline,
					 unsigned char what)
{
	struct tek_uthread *self = waiter->thread;

	if (!self)
		return wait_in_kernel(waiter, deadline);
	tek_ut__enter();
	tek_ut__spin_lock(&self->interrupt_lock);
	if (self->interrupted) {
		self->interrupted = false;
		tek_ut__change(&waiter->state, TEK_WAITING, TEK_INTERRUPTED);
	} else {
		self->interruptible = waiter;
	}
	tek_ut__spin_unlock(&self->interrupt_lock);

	enum tek_wake how = wait(waiter, deadline, what);

	tek_ut__spin_lock(&self->interrupt_lock);
	self->interruptible = NULL;
	if (how == TEK_INTERRUPTED)
		self->interrupted = false;
	tek_ut__spin_unlock(&self->interrupt_lock);
	tek_ut__leave();
	return how;
}

void tek_ut__interrupt(struct tek_uthread *thread)
{
	tek_ut__spin_lock(&thread->interrupt_lock);
	thread->interrupted = true;
	if (thread->interruptible)
		tek_ut__wake(thread->interruptible, TEK_INTERRUPTED);
	tek_ut__spin_unlock(&thread->interrupt_lock);
}

void tek_ut__pause(void)
{
	struct timespec until = tek__timespec_of(tek__now(CLOCK_MONOTONIC) + PAUSE_NS);
	struct tek_waiter waiter;

	tek_ut__waiter_init(&waiter);
	tek_ut__wait(&waiter, &until, TEK_WAITS_PAUSE);
}

void tek_ut__wait_after_fork(void)
{
	tek_ut__process = (unsigned int)getpid();
	timers.heap.root = NULL;
	atomic_store(&timers.count, 0);
	atomic_store(&timers.lock.held, 0);
}
