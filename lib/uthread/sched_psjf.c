/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Preemptive shortest job first: the thread with the fewest used quanta goes first, at once; among
 * equals the longest waiting one. A quantum that was given up early does not count.
 *
 * One heap for all workers: O(1) to become ready, O(log n) to be the next one, where the paper
 * sorts, O(n).
 *
 * This is no fair scheduler, by definition: a thread with many used quanta waits as long as there
 * are threads with fewer, for ever if new ones always arrive. Only a yield lets a thread with more
 * quanta run.
 *
 * uthreads, 3.3.
 */
#include "uthread/heap.h"
#include "uthread/ready_count.h"
#include "uthread/sched.h"
#include "uthread/spin.h"

#include <stddef.h>

static struct {
	struct tek_spin lock;
	struct tek_heap heap;
	uint64_t order; /* of the next thread to become ready */
	struct tek_ready_count count;
} psjf __attribute__((aligned(64)));

static struct tek_uthread *of_node(struct tek_heap_node *node)
{
	return (struct tek_uthread *)((char *)node - offsetof(struct tek_uthread, sched.node));
}

/* The thread that makes it ready may read this while it runs: goes_before(). */
static uint64_t quanta_of(const struct tek_uthread *thread)
{
	return __atomic_load_n(&thread->sched.quanta, __ATOMIC_RELAXED);
}

static int start(unsigned int workers)
{
	(void)workers;
	psjf = (__typeof__(psjf)){.heap = {NULL}};
	return 0;
}

static struct tek_worker *ready(struct tek_worker *from, struct tek_uthread *thread,
				enum tek_ready why)
{
	(void)from;
	(void)why;
	tek_ut__spin_lock(&psjf.lock);
	thread->sched.node.key = quanta_of(thread);
	thread->sched.node.order = psjf.order++;
	tek_ut__heap_add(&psjf.heap, &thread->sched.node);
	tek_ut__ready_count_add(&psjf.count, 1);
	tek_ut__spin_unlock(&psjf.lock);
	return NULL;
}

static bool any(struct tek_worker *worker)
{
	(void)worker;
	return tek_ut__ready_count(&psjf.count) != 0;
}

static struct tek_uthread *next(struct tek_worker *worker, const struct tek_uthread *running,
				enum tek_ready why)
{
	/* Threads with equal quanta have all waited for longer than the running one. */
	uint64_t most = running && why == TEK_READY_PREEMPTED ? quanta_of(running) : UINT64_MAX;
	struct tek_heap_node *first;

	if (!any(worker))
		return NULL;
	tek_ut__spin_lock(&psjf.lock);
	first = tek_ut__heap_first(&psjf.heap);
	if (first && first->key > most)
		first = NULL;
	if (first) {
		tek_ut__heap_remove(&psjf.heap, first);
		tek_ut__ready_count_add(&psjf.count, -1);
	}
	tek_ut__spin_unlock(&psjf.lock);
	return first ? of_node(first) : NULL;
}

static bool tick(struct tek_worker *worker, struct tek_uthread *running)
{
	(void)worker;
	__atomic_store_n(&running->sched.quanta, running->sched.quanta + 1, __ATOMIC_RELAXED);
	return true;
}

static bool goes_before(const struct tek_uthread *ready, const struct tek_uthread *running)
{
	return quanta_of(ready) < quanta_of(running);
}

const struct tek_sched tek_ut__sched_psjf = {
	.name = "psjf",
	.start = start,
	.ready = ready,
	.next = next,
	.any = any,
	.tick = tick,
	.goes_before = goes_before,
};
