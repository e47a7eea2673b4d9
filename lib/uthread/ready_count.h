/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How many threads a run queue has: changed under the queue's lock, read without (struct
 * tek_sched.any).
 *
 * Relaxed: it is a hint whether a poll is worthwhile, and the polling thread takes the lock. A
 * worker that sleeps because no thread is ready marks itself before it reads this. The thread that
 * makes another ready checks for sleepers afterwards, with a fence in between on either side
 * (worker.c, idle.c).
 */
#ifndef TEK_UTHREAD_READY_COUNT_H
#define TEK_UTHREAD_READY_COUNT_H

#include <stdatomic.h>

struct tek_ready_count {
	atomic_uint value;
};

static inline unsigned int tek_ut__ready_count(const struct tek_ready_count *count)
{
	return atomic_load_explicit(&count->value, memory_order_relaxed);
}

/* By the holder of the queue's lock, the only writer: so no atomic addition. */
static inline void tek_ut__ready_count_add(struct tek_ready_count *count, int number)
{
	atomic_store_explicit(&count->value, tek_ut__ready_count(count) + (unsigned int)number,
			      memory_order_relaxed);
}

#endif
