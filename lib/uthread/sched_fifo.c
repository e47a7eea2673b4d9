/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * RtFIFO: fixed priorities, 0 to 99, a greater one goes first. Threads are dealt to the workers in
 * turn when they are created, and stay there, without balancing. On its worker a thread runs until
 * it waits, yields, or one of a greater priority is ready: quanta do not count.
 * rtos-linux-scalability-2018, 3.1.3.
 *
 * As POSIX has it for SCHED_FIFO, a preempted thread comes back first of its priority, and a thread
 * that becomes ready comes last. A yield lets threads of its own and of greater priority run.
 *
 * The queues and their locks: priority_queues.h.
 */
#include "uthread/engine.h"
#include "uthread/priority_queues.h"
#include "uthread/sched.h"
#include "uthread/worker.h"

#include <errno.h>
#include <sys/mman.h>

#define FIRST_THREAD 1 /* struct tek_uthread.id */

static struct tek_priority_queues *queues; /* mapped, because few programs need them */
static unsigned int queue_count, worker_count;
static atomic_uint dealt; /* threads, so far */

static int map_queues(unsigned int workers)
{
	void *memory = mmap(NULL, workers * sizeof(*queues), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return ENOMEM;
	queues = memory;
	queue_count = workers;
	return 0;
}

static int start(unsigned int workers)
{
	/* In the child of fork() the queues exist, and may be more. */
	if (workers > queue_count && map_queues(workers))
		return ENOMEM;
	for (unsigned int i = 0; i < queue_count; i++)
		tek_ut__priority_queues_clear(&queues[i]);
	tek_ut__priority_queues_use(tek_ut__engine.lock);
	worker_count = workers;
	/*
	 * The first thread of the program is the first that was dealt, to worker 0, where it runs.
	 */
	atomic_store_explicit(&dealt, 1, memory_order_relaxed);
	return 0;
}

static struct tek_priority_queues *queues_of(const struct tek_worker *worker)
{
	return &queues[worker->number];
}

static struct tek_worker *deal(struct tek_uthread *thread)
{
	unsigned int number = 0;

	if (thread->id != FIRST_THREAD)
		number = atomic_fetch_add_explicit(&dealt, 1, memory_order_relaxed);
	struct tek_worker *assigned = &tek_ut__workers[number % worker_count];
	__atomic_store_n(&thread->sched.assigned, assigned, __ATOMIC_RELAXED);
	return assigned;
}

static struct tek_worker *ready(struct tek_worker *from, struct tek_uthread *thread,
				enum tek_ready why)
{
	struct tek_worker *assigned = thread->sched.assigned;

	(void)from;
	if (why == TEK_READY_CREATED || !assigned || assigned->number >= worker_count)
		assigned = deal(thread);
	tek_ut__priority_add(queues_of(assigned), thread, why == TEK_READY_PREEMPTED);
	return assigned;
}

static bool any(struct tek_worker *worker)
{
	return tek_ut__priority_greatest(queues_of(worker)) >= 0;
}

static struct tek_uthread *next(struct tek_worker *worker, const struct tek_uthread *running,
				enum tek_ready why)
{
	int least = 0;

	if (running) /* a yield: to equals or greater; a preemption: to greater ones only */
		least = tek_ut__priority_now(running) + (why == TEK_READY_PREEMPTED);
	return tek_ut__priority_take(queues_of(worker), least);
}

/* Whether a thread on this worker has to go before it. */
static bool goes_after(const struct tek_uthread *running, const struct tek_worker *worker)
{
	return tek_ut__priority_greatest(queues_of(worker)) > tek_ut__priority_now(running);
}

/* Quanta do not count. */
static bool tick(struct tek_worker *worker, struct tek_uthread *running)
{
	running->sched.quanta++;
	return goes_after(running, worker);
}

/*
 * `running` may be about to leave for a thread that next() has already taken out. So the priority
 * that the worker was given counts, too. It may have changed since; then the worker polls in vain.
 * `ready` may have run and ended, and be another thread by now that was not dealt yet.
 */
static bool goes_before(const struct tek_uthread *ready, const struct tek_uthread *running)
{
	const struct tek_worker *assigned = __atomic_load_n(&ready->sched.assigned,
							    __ATOMIC_RELAXED);
	int priority = tek_ut__priority_now(ready);

	return priority > tek_ut__priority_now(running) ||
	       (assigned && priority > tek_ut__priority_given(queues_of(assigned)));
}

static struct tek_worker *reprioritise(struct tek_uthread *thread, signed char priority)
{
	struct tek_worker *assigned = thread->sched.assigned;
	int before = tek_ut__priority_now(thread);

	if (!assigned) { /* it was never ready */
		__atomic_store_n(&thread->sched.priority, priority, __ATOMIC_RELEASE);
		return NULL;
	}
	if (tek_ut__priority_set_aside(queues_of(assigned), thread, priority)) {
		/* POSIX: last of its new priority, or first if that is less. */
		tek_ut__priority_add(queues_of(assigned), thread,
				     tek_ut__priority_now(thread) < before);
		/* For a moment the thread was in no queue. */
		return assigned;
	}
	return goes_after(thread, assigned) ? assigned : NULL;
}

const struct tek_sched tek_ut__sched_fifo = {
	.name = "fifo",
	.start = start,
	.ready = ready,
	.next = next,
	.any = any,
	.tick = tick,
	.goes_before = goes_before,
	.reprioritise = reprioritise,
};
