/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How many threads a run queue has: changed under the queue's lock, read without (struct tek_sched.any).
 *
 * Relaxed: it only says whether a look is worth its while, and who looks takes the lock.  A worker that sleeps because
 * nobody is ready says so before it reads this, and who makes a thread ready looks for sleepers afterwards,
 * with a fence in between on either side (worker.c, idle.c).
 */
#ifndef TEK_UTHREAD_READY_COUNT_H
#define TEK_UTHREAD_READY_COUNT_H

#include <stdatomic.h>

struct tek_ready_count {
	atomic_uint value;
};

static inline unsigned int tek__ready_count(const struct tek_ready_count *count)
{
	return atomic_load_explicit(&count->value, memory_order_relaxed);
}

/* By the holder of the queue's lock, who is the only one to write: so no atomic addition. */
static inline void tek__ready_count_add(struct tek_ready_count *count, int number)
{
	atomic_store_explicit(&count->value, tek__ready_count(count) + (unsigned int)number,
			      memory_order_relaxed);
}

#endif
