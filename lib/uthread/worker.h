/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Workers: each runs one user-level thread at a time.  A worker is not a kernel thread, it is carried by one
 * (carrier.h): when that is held up in the kernel, another takes the worker over.
 *
 * A switch goes straight from one thread to the next one.  What has to be done about the one that left can only be
 * done when all of it is saved, since it may run elsewhere at once: whoever comes next does it, first thing
 * (struct tek_left).  With no thread left to run the carrier's own context waits for one (idle.c).
 *
 * Parking: tek__park() stops the calling thread until somebody calls tek__unpark() of it; one that came before
 * counts.  It may also return for an unpark that was meant for something earlier: callers look again.
 */
#ifndef TEK_UTHREAD_WORKER_H
#define TEK_UTHREAD_WORKER_H

#include "uthread/here.h"
#include "uthread/sched.h"
#include "uthread/shown.h"
#include "uthread/thread.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TEK_WORKERS_MAX 256

struct tek_carrier;

/* What is to be done about a thread that was switched away from. */
enum tek_leaving { TEK_LEFT_NOBODY, TEK_LEFT_READY, TEK_LEFT_PARKED, TEK_LEFT_ENDED };

struct tek_left {
	struct tek_uthread *thread;
	enum tek_leaving leaving;
	enum tek_ready why; /* TEK_LEFT_READY */
};

struct tek_worker {
	unsigned int number;                   /* from 0 */
	_Atomic(struct tek_uthread *) current; /* NULL: none, its carrier waits for one */
	struct tek_left left;
	struct tek_uthread *for_carrier; /* goes on with the thread of another carrier: carrier.h */
	_Atomic(struct tek_carrier *) carrier;
	uint64_t switches;
	uint64_t kernel_mask; /* of signals, as its carrier has it; bits as in struct tek_uthread */
	struct tek_uthread *free; /* threads to be used again, with their stacks */
	unsigned int free_count;
	atomic_uint guards; /* of objects that its thread has: guard.h */
	void *free_tls;     /* uthread/tls.c */

	/* preempt.c */
	atomic_bool ticking; /* the timer of its carrier runs */
	uint64_t ticks;
	uint64_t ticked_switches;  /* `switches` at the last tick */
	atomic_bool kicked;        /* another thread goes before the one that runs here */
	unsigned int retries;      /* of ticks that came at a bad moment */
	uint64_t monitor_asked;    /* when, in ns */
	_Atomic uint64_t interval; /* of its timer, in ns: kernel_wait.h */
	unsigned int looks;        /* of the quantum that passes */

	/* idle.c */
	atomic_uint idle; /* TEK_IDLE_*; where it sleeps, too */
} __attribute__((aligned(64)));

extern struct tek_worker tek__workers[TEK_WORKERS_MAX] __attribute__((visibility("hidden")));
extern unsigned int tek__worker_count __attribute__((visibility("hidden")));

/*
 * Signals that a kernel thread blocks while its worker has no thread to run: posix/router.h finds a thread for them.
 * 0: it stays with what the last thread blocked.
 */
extern uint64_t tek__idle_mask __attribute__((visibility("hidden")));

/*
 * Who runs there; NULL: nobody.  Of another worker it may have changed since, and the thread may have ended: its
 * structure is there all the same.
 */
static inline struct tek_uthread *tek__runs_on(const struct tek_worker *worker)
{
	return atomic_load_explicit(&worker->current, memory_order_relaxed);
}

static inline void tek__set_current(struct tek_worker *worker, struct tek_uthread *thread)
{
	atomic_store_explicit(&worker->current, thread, memory_order_relaxed);
	if (thread)
		tek__shown_runs(thread, worker->number);
}

/*
 * Whether nothing has to be looked after but the switch itself: one kernel thread in the engine (parallel.h), no trace,
 * no critical thread, a scheduler under which nobody goes before others.  Once it is not so it stays so.
 */
extern atomic_bool tek__plain __attribute__((visibility("hidden")));

static inline bool tek__is_plain(void)
{
	return __builtin_expect(atomic_load_explicit(&tek__plain, memory_order_relaxed), 1);
}

static inline void tek__plain_no_more(void)
{
	atomic_store_explicit(&tek__plain, false, memory_order_relaxed);
}

/* The scheduler in force. */
extern const struct tek_sched *tek__sched __attribute__((visibility("hidden")));

/* Whether the caller is a user-level thread of the engine. */
static inline bool tek__is_uthread(void)
{
	return tek__here_self() != NULL;
}

/*
 * Into the engine and out of it: between them the calling thread stays on its worker, which is returned (NULL: the
 * caller is no user-level thread).  They nest.  Leaving makes up for a tick that came meanwhile.
 */
static inline struct tek_worker *tek__enter(void)
{
	tek__here_defer();
	struct tek_worker *worker = tek__here_entry();
	if (__builtin_expect(!worker, 0)) {
		struct tek_worker *tek__enter_again(void);
		worker = tek__enter_again();
	}
	return worker;
}

static inline void tek__leave(void)
{
	if (__builtin_expect(tek__here_undefer(), 0)) {
		void tek__leave_pending(void);
		tek__leave_pending();
	}
}

/* All of these between tek__enter() and tek__leave(), by a user-level thread. */

/* Lets others run; returns at once if none is ready. */
void tek__yield(enum tek_ready why);
void tek__park(void);

/* The calling thread, whose carrier has another one, goes on on this carrier, which has no worker. */
void tek__move_to(struct tek_carrier *carrier);

/*
 * The calling thread has ended: returns whom to go on with, another thread or the carrier's own context.  All is done for
 * that but the last: tek__fiber_switch(), tek__context_go().
 */
struct tek_uthread *tek__end_current(void);

/* Between tek__enter() and tek__leave(), by anybody, kernel threads too. */
void tek__unpark(struct tek_uthread *thread);

/* It can run: tells the scheduler, and a worker that has nothing to do. */
void tek__ready(struct tek_uthread *thread, enum tek_ready why);

/* The next one to run instead of `running`, which may be NULL; NULL: none. See struct tek_sched. */
struct tek_uthread *tek__next(struct tek_worker *worker, const struct tek_uthread *running,
			      enum tek_ready why);
bool tek__any_ready(struct tek_worker *worker);

/*
 * Goes on with `next` on this worker.  The calling context (a thread, or the carrier's own, which is `from` then)
 * is left as worker->left says.
 */
void tek__switch(struct tek_worker *worker, struct tek_uthread *from, struct tek_uthread *next);

/* What whoever comes next does about the one that left, if it has not been done already. */
static inline void tek__after_switch(struct tek_worker *worker)
{
	void tek__settle(struct tek_worker *);
	void tek__note_kick(void);

	if (worker->left.leaving != TEK_LEFT_NOBODY)
		tek__settle(worker);
	/* The kick may have been noted where the one that left looks, or where it will not look any more. */
	if (__builtin_expect(atomic_load_explicit(&worker->kicked, memory_order_relaxed), 0))
		tek__note_kick();
}

#endif
