/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Workers: each runs one user-level thread at a time. A kernel thread, the carrier, runs the worker
 * (carrier.h). If the carrier blocks in the kernel, another carrier takes the worker.
 *
 * A switch goes straight from one thread to the next one. The thread that left may run elsewhere as
 * soon as its context is saved. So the next thread completes the switch, first thing (struct
 * tek_left). With no thread left to run the carrier's own context waits for one (idle.c).
 *
 * Parking: tek_ut__park() stops the calling thread until tek_ut__unpark() is called for it; an
 * earlier call counts, too. It may also return for an unpark of an earlier wait, so callers
 * check their condition again.
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

struct tek_carrier;

/* The treatment of a thread that was switched away from. */
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
	struct tek_uthread *for_carrier; /* goes on with another carrier's thread: carrier.h */
	_Atomic(struct tek_carrier *) carrier;
	uint64_t switches;
	uint64_t kernel_mask; /* of signals, as its carrier has it; bits as in struct tek_uthread */
	struct tek_uthread *free; /* threads to be reused, with their stacks */
	unsigned int free_count;
	atomic_uint guards; /* of objects that its thread holds: guard.h */
	void *free_tls;     /* uthread/tls.c */

	/* preempt.c */
	atomic_bool ticking; /* the timer of its carrier runs */
	uint64_t ticks;
	uint64_t ticked_switches;        /* `switches` at the last tick */
	atomic_bool kicked;              /* another thread goes before the one that runs here */
	unsigned int retries;            /* of ticks that arrived at a bad moment */
	uint64_t monitor_asked;          /* when, in ns */
	uint64_t given_at;               /* when a tick last took a thread off it, in ns */
	_Atomic uint64_t interval;       /* of its timer, in ns: kernel_wait.h */
	_Atomic uint64_t least_interval; /* of its timer, in ns: tick_cost.h; 0: not known yet */
	unsigned int polls;              /* polls in the current quantum */

	/* idle.c */
	atomic_uint idle; /* TEK_IDLE_*; also the futex that it sleeps on */
} __attribute__((aligned(64)));

extern struct tek_worker tek_ut__workers[TEK_WORKERS_MAX] __attribute__((visibility("hidden")));
extern unsigned int tek_ut__worker_count __attribute__((visibility("hidden")));

/*
 * Signals that a kernel thread blocks while its worker has no thread to run: posix/router.h finds a
 * thread for them. 0: the mask of the last thread stays.
 */
extern uint64_t tek_ut__idle_mask __attribute__((visibility("hidden")));

/*
 * The thread that runs there; NULL: none. Of another worker it may have changed since, and the
 * thread may have ended: its structure stays valid.
 */
static inline struct tek_uthread *tek_ut__runs_on(const struct tek_worker *worker)
{
	return atomic_load_explicit(&worker->current, memory_order_relaxed);
}

static inline void tek_ut__set_current(struct tek_worker *worker, struct tek_uthread *thread)
{
	atomic_store_explicit(&worker->current, thread, memory_order_relaxed);
	if (thread)
		tek_ut__shown_runs(thread, worker->number);
}

/*
 * Whether the switch itself is all there is to do: one kernel thread in the engine (parallel.h), no
 * trace, no critical thread, a scheduler under which no thread goes before another. Once false it
 * stays false.
 */
extern atomic_bool tek_ut__plain __attribute__((visibility("hidden")));

static inline bool tek_ut__is_plain(void)
{
	return __builtin_expect(atomic_load_explicit(&tek_ut__plain, memory_order_relaxed), 1);
}

static inline void tek_ut__plain_no_more(void)
{
	atomic_store_explicit(&tek_ut__plain, false, memory_order_relaxed);
}

/* The scheduler in force. */
extern const struct tek_sched *tek_ut__sched __attribute__((visibility("hidden")));

/* Whether the caller is a user-level thread of the engine. */
static inline bool tek_ut__is_uthread(void)
{
	return tek_ut__here_self() != NULL;
}

/*
 * Into the engine and out of it: between them the calling thread stays on its worker, which is
 * returned (NULL: the caller is no user-level thread). They nest. Leaving handles a tick that
 * arrived meanwhile.
 */
static inline struct tek_worker *tek_ut__enter(void)
{
	tek_ut__here_defer();
	struct tek_worker *worker = tek_ut__here_entry();
	if (__builtin_expect(!worker, 0)) {
		struct tek_worker *tek_ut__enter_again(void);
		worker = tek_ut__enter_again();
	}
	return worker;
}

static inline void tek_ut__leave(void)
{
	if (__builtin_expect(tek_ut__here_undefer(), 0)) {
		void tek_ut__leave_pending(void);
		tek_ut__leave_pending();
	}
}

/* All of these between tek_ut__enter() and tek_ut__leave(), by a user-level thread. */

/* Lets other threads run; returns at once if none is ready. */
void tek_ut__yield(enum tek_ready why);
void tek_ut__park(void);

/* The calling thread, which has another carrier, goes on on this carrier, which has no worker. */
void tek_ut__move_to(struct tek_carrier *carrier);

/*
 * The calling thread has ended: returns its successor, another thread or the carrier's own context.
 * Only the last step is left to the caller: tek_ut__fiber_switch(), tek__context_go().
 */
struct tek_uthread *tek_ut__end_current(void);

/* Between tek_ut__enter() and tek_ut__leave(), by any thread, kernel threads too. */
void tek_ut__unpark(struct tek_uthread *thread);

/* It can run: notifies the scheduler, and a worker that has nothing to do. */
void tek_ut__ready(struct tek_uthread *thread, enum tek_ready why);

/* The next one to run instead of `running`, which may be NULL; NULL: none. See struct tek_sched. */
struct tek_uthread *tek_ut__next(struct tek_worker *worker, const struct tek_uthread *running,
				 enum tek_ready why);
bool tek_ut__any_ready(struct tek_worker *worker);

/*
 * Goes on with `next` on this worker.  The calling context (a thread, or the carrier's own, which
 * is `from` then) is left as worker->left specifies.
 */
void tek_ut__switch(struct tek_worker *worker, struct tek_uthread *from, struct tek_uthread *next);

/*
 * By the thread that runs next: completes the switch for the one that left, if that is not done
 * yet.
 */
static inline void tek_ut__after_switch(struct tek_worker *worker)
{
	void tek_ut__settle(struct tek_worker *);
	void tek_ut__note_kick(void);

	if (worker->left.leaving != TEK_LEFT_NOBODY)
		tek_ut__settle(worker);
	/*
	 * The kick may be noted where the thread that left polls, or where it will not poll any
	 * more.
	 */
	if (__builtin_expect(atomic_load_explicit(&worker->kicked, memory_order_relaxed), 0))
		tek_ut__note_kick();
}

#endif
