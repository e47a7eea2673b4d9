/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The interface of schedulers: which ready thread runs next, on which worker, and for how long.
 *
 * A scheduler has the ready threads, and only those. Each thread carries the schedulers' state of
 * it (struct tek_sched_state). Critical threads do not come here: the engine keeps them apart and
 * asks a scheduler only while none is ready (critical.h).
 *
 * All functions are called with preemption deferred, by several workers at the same time: a
 * scheduler has locks of its own (spin.h), and none of the engine's is held meanwhile.
 */
#ifndef TEK_UTHREAD_SCHED_H
#define TEK_UTHREAD_SCHED_H

#include "tek_options.h"
#include "uthread/thread.h"

#include <stdbool.h>

/* Why a thread is ready. */
enum tek_ready {
	TEK_READY_CREATED,
	TEK_READY_WOKEN,
	TEK_READY_YIELDED,
	TEK_READY_PREEMPTED, /* it has used up its quantum, or a thread goes before it */
};

struct tek_sched {
	const char *name;

	/*
	 * Before the first thread: `workers` of them, tek_ut__workers[]. 0 or an error number.
	 * Again in the child of fork(): forgets all ready threads, and the holders of its locks.
	 */
	int (*start)(unsigned int workers);

	/*
	 * This one is ready. `from`: the worker of the thread that makes it so, NULL: no user-level
	 * thread. Returns the worker that has to poll, if it has nothing to do; NULL: any.
	 */
	struct tek_worker *(*ready)(struct tek_worker *from, struct tek_uthread *thread,
				    enum tek_ready why);

	/*
	 * Takes out the thread that this worker runs next; NULL: there is none. `running`: the
	 * thread that runs there would go on, but yields, for the reason `why`. NULL is returned
	 * then if it goes on after all, because the ready threads come after it (of fifo: only
	 * lesser priorities; of psjf, if preempted: more quanta). `running` is not in a queue, and
	 * comes back by ready() once it has left; it may be NULL.
	 */
	struct tek_uthread *(*next)(struct tek_worker *worker, const struct tek_uthread *running,
				    enum tek_ready why);

	/* Whether next() would find one. Without a lock, so a moment late at times. */
	bool (*any)(struct tek_worker *worker);

	/*
	 * A quantum has passed while `running` ran, all of it. Returns whether the thread has used
	 * up its allotment, and the next one comes.
	 */
	bool (*tick)(struct tek_worker *worker, struct tek_uthread *running);

	/*
	 * Whether a thread that became ready on this worker goes before the running one, at once.
	 * NULL: never.
	 */
	bool (*goes_before)(const struct tek_uthread *ready, const struct tek_uthread *running);

	/*
	 * From now on it has this priority, be it ready, running or waiting. Returns the worker
	 * that has to poll whether a thread goes before the one that runs there; NULL: none. NULL
	 * instead of a function: the scheduler has no priorities, sched.priority can be written.
	 */
	struct tek_worker *(*reprioritise)(struct tek_uthread *thread, signed char priority);
};

#define TEK_SCHED(name, text, about) extern const struct tek_sched tek_ut__sched_##name;
TEK_SCHEDULERS(TEK_SCHED)
#undef TEK_SCHED

/* By its name; NULL: there is none. */
const struct tek_sched *tek_ut__sched_find(const char *name);
/* One after the other, from 0 on; NULL: no more. */
const struct tek_sched *tek_ut__sched_at(unsigned int number);

/* A queue, first in first out, by struct tek_sched_state.next. Zero is empty. */
struct tek_fifo {
	struct tek_uthread *first, *last;
};

static inline void tek_ut__fifo_add(struct tek_fifo *fifo, struct tek_uthread *thread)
{
	thread->sched.next = NULL;
	if (fifo->first)
		fifo->last->sched.next = thread;
	else
		fifo->first = thread;
	fifo->last = thread;
}

static inline struct tek_uthread *tek_ut__fifo_take(struct tek_fifo *fifo)
{
	struct tek_uthread *thread = fifo->first;
	if (thread)
		fifo->first = thread->sched.next;
	return thread;
}

#endif
