/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/critical.h"

#include "uthread/heap.h"

#include <string.h>

atomic_uint tek_ut__critical_ready;

static struct {
	struct tek_spin lock;
	struct tek_heap heap;
	uint64_t order;
} waiting;

static struct tek_uthread *of_node(struct tek_heap_node *node)
{
	return (struct tek_uthread *)((char *)node - offsetof(struct tek_uthread, sched.node));
}

void tek_ut__critical_add(struct tek_uthread *thread)
{
	tek_ut__spin_lock(&waiting.lock);
	/* The heap's first has the least key: a greater priority a lesser one. */
	thread->sched.node.key = (uint64_t)(127 - thread->sched.priority);
	thread->sched.node.order = waiting.order++;
	tek_ut__heap_add(&waiting.heap, &thread->sched.node);
	atomic_fetch_add_explicit(&tek_ut__critical_ready, 1, memory_order_relaxed);
	tek_ut__spin_unlock(&waiting.lock);
}

struct tek_uthread *tek_ut__critical_take(const struct tek_uthread *running)
{
	struct tek_uthread *thread = NULL;

	tek_ut__spin_lock(&waiting.lock);
	struct tek_heap_node *first = tek_ut__heap_first(&waiting.heap);
	if (first)
		thread = of_node(first);
	if (thread && running && running->sched.critical &&
	    running->sched.priority > thread->sched.priority)
		thread = NULL;
	if (thread) {
		tek_ut__heap_remove(&waiting.heap, first);
		atomic_fetch_sub_explicit(&tek_ut__critical_ready, 1, memory_order_relaxed);
	}
	tek_ut__spin_unlock(&waiting.lock);
	return thread;
}

struct tek_worker *tek_ut__critical_place(struct tek_worker *from)
{
	const struct tek_uthread *running = from ? tek_ut__runs_on(from) : NULL;
	if (running && !running->sched.critical)
		return from;
	for (unsigned int i = 0; i < tek_ut__worker_count; i++) {
		running = tek_ut__runs_on(&tek_ut__workers[i]);
		if (!running || !running->sched.critical)
			return &tek_ut__workers[i];
	}
	return from;
}

bool tek_ut__goes_before(const struct tek_uthread *ready, const struct tek_uthread *running)
{
	if (ready->sched.critical != running->sched.critical)
		return ready->sched.critical;
	if (ready->sched.critical)
		return ready->sched.priority > running->sched.priority;
	return tek_ut__sched->goes_before && tek_ut__sched->goes_before(ready, running);
}

void tek_ut__critical_after_fork(void)
{
	memset(&waiting, 0, sizeof(waiting));
	atomic_store(&tek_ut__critical_ready, 0);
}
