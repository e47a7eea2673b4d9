/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Round robin: one queue for all workers; the first ready thread runs next, for one quantum. With n
 * threads ready and w workers no thread waits for longer than n / w quanta.
 *
 * uthreads, 3.1.
 */
#include "uthread/ready_count.h"
#include "uthread/sched.h"
#include "uthread/spin.h"

static struct {
	struct tek_spin lock;
	struct tek_fifo queue;
	struct tek_ready_count count;
} rr __attribute__((aligned(64)));

static int start(unsigned int workers)
{
	(void)workers;
	rr = (__typeof__(rr)){.queue = {NULL, NULL}};
	return 0;
}

static struct tek_worker *ready(struct tek_worker *from, struct tek_uthread *thread,
				enum tek_ready why)
{
	(void)from;
	(void)why;
	tek_ut__spin_lock(&rr.lock);
	tek_ut__fifo_add(&rr.queue, thread);
	tek_ut__ready_count_add(&rr.count, 1);
	tek_ut__spin_unlock(&rr.lock);
	return NULL;
}

static bool any(struct tek_worker *worker)
{
	(void)worker;
	return tek_ut__ready_count(&rr.count) != 0;
}

static struct tek_uthread *next(struct tek_worker *worker, const struct tek_uthread *running,
				enum tek_ready why)
{
	struct tek_uthread *thread;

	(void)running;
	(void)why;
	if (!any(worker))
		return NULL;
	tek_ut__spin_lock(&rr.lock);
	thread = tek_ut__fifo_take(&rr.queue);
	if (thread)
		tek_ut__ready_count_add(&rr.count, -1);
	tek_ut__spin_unlock(&rr.lock);
	return thread;
}

static bool tick(struct tek_worker *worker, struct tek_uthread *running)
{
	(void)worker;
	running->sched.quanta++;
	return true;
}

const struct tek_sched tek_ut__sched_rr = {
	.name = "rr",
	.start = start,
	.ready = ready,
	.next = next,
	.any = any,
	.tick = tick,
};
