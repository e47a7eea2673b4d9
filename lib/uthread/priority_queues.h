/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The ready threads of one worker by fixed priorities, 0 to 99, first in first out within each (sched_fifo.c).
 *
 * A queue for each priority, and a bit for each queue that has somebody: whoever is next is found in a fixed number of
 * instructions, however many threads there are.  Nothing is allocated.  Anybody adds; only the worker takes.
 *
 * Locks, of three granularities (rtos-linux-scalability-2018, 3.1.5): one for all (giant), one for each worker
 * (worker), one for each queue (object).
 *   - Each change of a queue, of its bit, and of the priority of a thread in it is made under the queue's lock.
 *   - A thread that is not in a queue changes its priority under the lock of the queue that it would have come to.
 *     So who has a lock and finds that the thread still has that queue's priority can rely on it.  The new
 *     priority is stored with release and loaded with acquire: whoever takes another queue's lock for it
 *     comes after what was done under the first one's.
 *   - `given` is the priority that the worker was last given.  Whoever makes a greater one ready has to see that, or
 *     the worker has to see the greater one.  Where one lock has all of the worker's queues that is so by itself.
 *     Else both write first, the one the bit and the other `given`, and then read what the other has written,
 *     with a full barrier in between: here in take_by_queue(), there in tek__ready() (worker.c).
 */
#ifndef TEK_UTHREAD_PRIORITY_QUEUES_H
#define TEK_UTHREAD_PRIORITY_QUEUES_H

#include "uthread/deque.h"
#include "uthread/spin.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

#define TEK_PRIORITIES 100
#define TEK_PRIORITY_WORD_BITS (sizeof(unsigned long) * CHAR_BIT)
#define TEK_PRIORITY_WORDS ((TEK_PRIORITIES + TEK_PRIORITY_WORD_BITS - 1) / TEK_PRIORITY_WORD_BITS)

/* Aligned, so that locks of their own do not share a cache line. */
struct tek_priority_queue {
	struct tek_spin lock;
	struct tek_deque threads;
} __attribute__((aligned(64)));

struct tek_priority_queues {
	struct tek_spin lock;
	atomic_ulong used[TEK_PRIORITY_WORDS]; /* bit n: the queue of priority n has somebody */
	atomic_int given;                      /* -1: none yet */
	struct tek_priority_queue queues[TEK_PRIORITIES];
} __attribute__((aligned(64)));

/* Before all else: which locks there are, TEK_LOCK_*. All workers' queues are empty then, and nobody holds a lock. */
void tek__priority_queues_use(int granularity);
void tek__priority_queues_clear(struct tek_priority_queues *all);

/* Of a thread, within the range, as of now. */
static inline int tek__priority_now(const struct tek_uthread *thread)
{
	int priority = __atomic_load_n(&thread->sched.priority, __ATOMIC_ACQUIRE);

	return priority < 0 ? 0 : priority < TEK_PRIORITIES ? priority : TEK_PRIORITIES - 1;
}

/* The greatest that has somebody; -1: none. Without a lock. */
static inline int tek__priority_greatest(const struct tek_priority_queues *all)
{
	for (int i = TEK_PRIORITY_WORDS - 1; i >= 0; i--) {
		unsigned long word = atomic_load(&all->used[i]);
		int highest_bit = (i + 1) * (int)TEK_PRIORITY_WORD_BITS - 1;
		if (word)
			return highest_bit - __builtin_clzl(word);
	}
	return -1;
}

/* What the worker was last given. Without a lock. */
static inline int tek__priority_given(const struct tek_priority_queues *all)
{
	return atomic_load_explicit(&all->given, memory_order_relaxed);
}

/* To the queue of its priority, as the first or the last one. */
void tek__priority_add(struct tek_priority_queues *all, struct tek_uthread *thread, bool first);

/* Takes out the first of the greatest priority, if that is not less than `least`; NULL: none. By the worker. */
struct tek_uthread *tek__priority_take(struct tek_priority_queues *all, int least);

/*
 * From now on the thread has this priority.  If it was in a queue it is in none now: returns whether; then the
 * caller adds it.
 */
bool tek__priority_set_aside(struct tek_priority_queues *all, struct tek_uthread *thread,
			     signed char priority);

#endif
