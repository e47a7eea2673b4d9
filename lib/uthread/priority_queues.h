/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The ready threads of one worker by fixed priorities, 0 to 99, first in first out within each
 * (sched_fifo.c).
 *
 * A queue for each priority, and a bit for each queue that is not empty: the next thread is found
 * in a fixed number of instructions, however many threads there are. Nothing is allocated. Any
 * thread adds; only the worker takes.
 *
 * Locks, of three granularities (rtos-linux-scalability-2018, 3.1.5): one for all (giant), one for
 * each worker (worker), one for each queue (object).
 *   - Each change of a queue, of its bit, and of the priority of a thread in it is made under the
 *     queue's lock.
 *   - A thread that is not queued changes its priority under the lock of the queue that it would
 *     enter. So a lock holder can rely on a thread that still has that queue's priority. The new
 *     priority is stored with release and loaded with acquire: a thread that takes another queue's
 *     lock for it comes after all that was done under the first lock.
 *   - `given` is the priority that the worker was last given. The thread that makes a greater one
 *     ready has to see that, or the worker has to see the greater one. One lock for all of the
 *     worker's queues ensures that. Else both write first, the one the bit and the other `given`.
 *     Then each reads the other's word, with a full barrier in between: here in take_by_queue(),
 *     there in tek_ut__ready() (worker.c).
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

/* Aligned, so that separate locks do not share a cache line. */
struct tek_priority_queue {
	struct tek_spin lock;
	struct tek_deque threads;
} __attribute__((aligned(64)));

struct tek_priority_queues {
	struct tek_spin lock;
	atomic_ulong used[TEK_PRIORITY_WORDS]; /* bit n: the queue of priority n has a thread */
	atomic_int given;                      /* -1: none yet */
	struct tek_priority_queue queues[TEK_PRIORITIES];
} __attribute__((aligned(64)));

/*
 * First: which locks there are, TEK_LOCK_*. All workers' queues are empty then, and no lock is
 * held.
 */
void tek_ut__priority_queues_use(int granularity);
void tek_ut__priority_queues_clear(struct tek_priority_queues *all);

/* The current priority of a thread, within the range. */
static inline int tek_ut__priority_now(const struct tek_uthread *thread)
{
	int priority = __atomic_load_n(&thread->sched.priority, __ATOMIC_ACQUIRE);

	return priority < 0 ? 0 : priority < TEK_PRIORITIES ? priority : TEK_PRIORITIES - 1;
}

/* The greatest priority with a thread; -1: none. Without a lock. */
static inline int tek_ut__priority_greatest(const struct tek_priority_queues *all)
{
	for (int i = TEK_PRIORITY_WORDS - 1; i >= 0; i--) {
		unsigned long word = atomic_load(&all->used[i]);
		int highest_bit = (i + 1) * (int)TEK_PRIORITY_WORD_BITS - 1;
		if (word)
			return highest_bit - __builtin_clzl(word);
	}
	return -1;
}

/* The priority that the worker was last given. Without a lock. */
static inline int tek_ut__priority_given(const struct tek_priority_queues *all)
{
	return atomic_load_explicit(&all->given, memory_order_relaxed);
}

/* To the queue of its priority, as the first or the last one. */
void tek_ut__priority_add(struct tek_priority_queues *all, struct tek_uthread *thread, bool first);

/*
 * Takes out the first of the greatest priority, if that is not less than `least`; NULL: none. By
 * the worker.
 */
struct tek_uthread *tek_ut__priority_take(struct tek_priority_queues *all, int least);

/*
 * From now on the thread has this priority.  If it was in a queue it is in none now: returns
 * whether; then the caller adds it.
 */
bool tek_ut__priority_set_aside(struct tek_priority_queues *all, struct tek_uthread *thread,
				signed char priority);

#endif
