/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/priority_queues.h"

#include "uthread/engine.h"

#include <string.h>

static struct {
	struct tek_spin giant;
	int granularity; /* TEK_LOCK_* */
} locks __attribute__((aligned(64)));

void tek_ut__priority_queues_use(int granularity)
{
	memset(&locks, 0, sizeof(locks));
	locks.granularity = granularity;
}

void tek_ut__priority_queues_clear(struct tek_priority_queues *all)
{
	memset(all, 0, sizeof(*all));
	atomic_init(&all->given, -1);
}

static struct tek_spin *lock_of(struct tek_priority_queues *all, int priority)
{
	switch (locks.granularity) {
	case TEK_LOCK_GIANT:
		return &locks.giant;
	case TEK_LOCK_WORKER:
		return &all->lock;
	default:
		return &all->queues[priority].lock;
	}
}

/* Whether the bits of a worker have more than one lock. */
static bool shares_bits(void)
{
	return tek_ut__parallel() && locks.granularity == TEK_LOCK_OBJECT;
}

/* Both: by the holder of the queue's lock. */
static void set_used(struct tek_priority_queues *all, int priority)
{
	atomic_ulong *word = &all->used[(unsigned int)priority / TEK_PRIORITY_WORD_BITS];
	unsigned long bit = 1ul << (unsigned int)priority % TEK_PRIORITY_WORD_BITS;

	if (shares_bits())
		atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
	else
		atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) | bit,
				      memory_order_relaxed);
}

static void clear_used(struct tek_priority_queues *all, int priority)
{
	atomic_ulong *word = &all->used[(unsigned int)priority / TEK_PRIORITY_WORD_BITS];
	unsigned long bit = 1ul << (unsigned int)priority % TEK_PRIORITY_WORD_BITS;

	if (shares_bits())
		atomic_fetch_and_explicit(word, ~bit, memory_order_relaxed);
	else
		atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) & ~bit,
				      memory_order_relaxed);
}

void tek_ut__priority_add(struct tek_priority_queues *all, struct tek_uthread *thread, bool first)
{
	for (bool added = false; !added;) {
		int priority = tek_ut__priority_now(thread);
		struct tek_spin *lock = lock_of(all, priority);
		struct tek_deque *threads = &all->queues[priority].threads;

		tek_ut__spin_lock(lock);
		added = tek_ut__priority_now(thread) == priority;
		if (added) {
			if (first)
				tek_ut__deque_add_first(threads, thread);
			else
				tek_ut__deque_add_last(threads, thread);
			set_used(all, priority);
		}
		tek_ut__spin_unlock(lock);
	}
}

/* By the holder of the lock. */
static void take_out(struct tek_priority_queues *all, int priority, struct tek_uthread *thread)
{
	struct tek_deque *threads = &all->queues[priority].threads;

	tek_ut__deque_remove(threads, thread);
	if (!threads->first)
		clear_used(all, priority);
}

/* One lock has all queues of the worker. */
static struct tek_uthread *take_at_once(struct tek_priority_queues *all, int least)
{
	struct tek_spin *lock = lock_of(all, 0);
	struct tek_uthread *thread = NULL;

	tek_ut__spin_lock(lock);
	int priority = tek_ut__priority_greatest(all);
	if (priority >= least) {
		thread = all->queues[priority].threads.first;
		take_out(all, priority, thread);
		atomic_store_explicit(&all->given, priority, memory_order_relaxed);
	}
	tek_ut__spin_unlock(lock);
	return thread;
}

/*
 * Each queue has a lock. No other worker takes meanwhile, but priorities change, so a queue may be
 * empty after all.
 */
static struct tek_uthread *take_by_queue(struct tek_priority_queues *all, int least)
{
	int before = tek_ut__priority_given(all);
	int priority;

	while ((priority = tek_ut__priority_greatest(all)) >= least) {
		atomic_exchange(&all->given, priority); /* and a barrier */
		if (tek_ut__priority_greatest(all) > priority)
			continue;
		tek_ut__spin_lock(&all->queues[priority].lock);
		struct tek_uthread *thread = all->queues[priority].threads.first;
		if (thread)
			take_out(all, priority, thread);
		tek_ut__spin_unlock(&all->queues[priority].lock);
		if (thread)
			return thread;
	}
	atomic_store_explicit(&all->given, before, memory_order_relaxed);
	return NULL;
}

struct tek_uthread *tek_ut__priority_take(struct tek_priority_queues *all, int least)
{
	if (tek_ut__parallel() && tek_ut__priority_greatest(all) < least)
		return NULL; /* without a lock */
	return shares_bits() ? take_by_queue(all, least) : take_at_once(all, least);
}

bool tek_ut__priority_set_aside(struct tek_priority_queues *all, struct tek_uthread *thread,
				signed char priority)
{
	for (;;) {
		int old = tek_ut__priority_now(thread);
		struct tek_spin *lock = lock_of(all, old);

		tek_ut__spin_lock(lock);
		bool same = tek_ut__priority_now(thread) == old;
		bool queued = same && tek_ut__in_deque(thread);
		if (queued)
			take_out(all, old, thread);
		if (same)
			__atomic_store_n(&thread->sched.priority, priority, __ATOMIC_RELEASE);
		tek_ut__spin_unlock(lock);
		if (same)
			return queued;
	}
}
