/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Carriers: the kernel threads that carry workers.
 *
 * There is one for each worker, and spare ones. A thread may block in the kernel in a call that the
 * engine does not know (the C library's own, a page fault). Then it blocks its carrier. The
 * monitor, a kernel thread that a tick wakes on suspicion, sees that in /proc and gives the worker
 * to a spare carrier. The blocked thread then belongs to its carrier (struct tek_uthread.carrier).
 * When the call returns the thread runs its program without a worker, until it enters the engine or
 * is sent a tick. There it waits for a worker. With kernel threads it would have run in parallel,
 * too.
 *
 * With KLT preemption (preempt.h) this is how threads are preempted.
 *
 * A carrier may be for one thread only, and a thread for one carrier: bound.h.
 *
 * Taking a worker away races with its carrier, which may just be returning. The monitor writes "no
 * worker" to the word that tek_ut__enter() reads (here->entry). It makes all CPUs pass a memory
 * barrier (membarrier(2)), and then reads whether the thread is in the engine (`defer`). The thread
 * writes `defer` and then reads its worker. So at least one of them sees the other; if both do,
 * here->lock decides. The thread may meanwhile have got another worker or another carrier. Each
 * such change is written to here->entry. So the monitor closes here->entry only if it has the
 * expected value, and takes the worker only if it is still closed.
 */
#ifndef TEK_UTHREAD_CARRIER_H
#define TEK_UTHREAD_CARRIER_H

#include "uthread/here.h"
#include "uthread/spin.h"
#include "uthread/thread.h"
#include "uthread/tick_cost.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

struct tek_carrier {
	struct tek_uthread context;   /* its own: runs while it has no thread to run */
	atomic_int tid;               /* 0: its kernel thread has not begun, or ends */
	atomic_int ended;             /* the id of the one before, which may still end; 0: none */
	struct tek_here *kernel_here; /* of the storage of its kernel thread */
	int timer;                    /* its ticks: preempt.c; -1: none */
	struct tek_tick_cost cost;    /* of these */
	atomic_uint called;           /* a worker has been given to it: a futex */
	struct tek_worker *given;     /* that worker */
	struct tek_carrier *next;     /* of the spare ones */
	struct tek_carrier *all;      /* of all, */
	bool listed;                  /* if it is in that list */
	struct tek_uthread *_Atomic detached; /* carried without a worker; NULL: none */
	atomic_bool aside;  /* `detached` left by its own call, and returns: posix/aside.h */
	void *signal_stack; /* overflow.h; it stays with the structure */
	atomic_bool kicked; /* a tick has been sent that has not arrived yet */
	atomic_uint place;  /* the CPU + 1 that it is pinned to; 0: none (affinity.h) */
	/* Threads that it may run: bound.h. */
	bool dedicated;                   /* `only`, and no other */
	struct tek_uthread *_Atomic only; /* NULL: that one has ended */
	unsigned int generation;          /* of kernel state: tek_ut__carrier_generation */
	struct tek_uthread *main; /* of the process's first kernel thread: its thread; else NULL */
};

extern struct tek_carrier *_Atomic tek_ut__carriers __attribute__((visibility("hidden")));

/*
 * The calling kernel thread becomes the carrier of worker 0, and goes on as `first`. 0 or an error
 * number.
 */
int tek_ut__carrier_adopt(struct tek_worker *worker, struct tek_uthread *first);

/*
 * The engine could not be started: the adopted kernel thread is not the engine's any more. Does
 * nothing if none was adopted.
 */
void tek_ut__carrier_disown(void);

/*
 * Counts the changes of the kernel state of the whole process (bound.h). A carrier of an earlier
 * generation runs no thread any more.
 */
extern atomic_uint tek_ut__carrier_generation __attribute__((visibility("hidden")));

/* Whether this thread may run there. */
static inline bool tek_ut__carrier_may_run(const struct tek_carrier *carrier,
					   const struct tek_uthread *thread)
{
	if (carrier->dedicated)
		return atomic_load(&carrier->only) == thread;
	return carrier->generation == atomic_load(&tek_ut__carrier_generation);
}

/* Whether it runs no thread any more. */
static inline bool tek_ut__carrier_is_over(const struct tek_carrier *carrier)
{
	return carrier->dedicated ? !atomic_load(&carrier->only)
				  : !tek_ut__carrier_may_run(carrier, NULL);
}

/*
 * A new kernel thread that carries `worker`, or is a spare one (NULL). `generation`: of the
 * caller's kernel state, which the new one inherits. 0 or an error number.
 */
int tek_ut__carrier_start(struct tek_worker *worker, unsigned int generation);

/*
 * A new kernel thread with the kernel state of the caller's. It runs one thread only, which the
 * caller writes to carrier->only. NULL: none is available.
 */
struct tek_carrier *tek_ut__carrier_start_dedicated(void);

/* Ends its kernel thread, which has no worker and waits for one. */
void tek_ut__carrier_dismiss(struct tek_carrier *carrier);

/* The thread stops in the middle of something, on this carrier. */
static inline void tek_ut__carrier_pin(struct tek_uthread *thread, struct tek_carrier *carrier)
{
	thread->carrier = carrier;
	thread->stopped = true;
}

/* It goes on there. */
static inline void tek_ut__carrier_unpin(struct tek_uthread *thread)
{
	thread->stopped = false;
	if (!thread->bound)
		thread->carrier = NULL;
}

/* Gives it a worker that no carrier carries, or from which the caller steps back. */
void tek_ut__carrier_give_worker(struct tek_carrier *spare, struct tek_worker *worker);

/*
 * Until the carrier is given a worker, which from then on is its own; NULL: it is dismissed. By its
 * kernel thread.
 */
struct tek_worker *tek_ut__carrier_await(struct tek_carrier *carrier);

/*
 * By a user-level thread after its worker was given to another carrier: the thread becomes ready,
 * and waits on its carrier until it is scheduled. Returns its new worker. In a signal handler, too.
 */
struct tek_worker *tek_ut__carrier_wait(struct tek_uthread *self, struct tek_carrier *carrier);

/*
 * By a user-level thread: it stops here, on its carrier, and is ready; its worker goes on with the
 * next one. Returns when the thread is scheduled, or false at once: there is no thread, or no spare
 * carrier, to go on with. In a signal handler, too.
 */
bool tek_ut__carrier_stop_here(struct tek_worker *worker);

/*
 * By a user-level thread between tek_ut__enter() and tek_ut__leave(): it goes on without its
 * worker, which the caller gives to another carrier. `aside`: the thread returns by itself
 * (posix/aside.h); else the monitor reminds it.
 */
void tek_ut__carrier_leave_worker(struct tek_worker *worker, bool aside);

/* By the carrier's own context: `thread` belongs to another carrier, which gets this worker. */
void tek_ut__carrier_hand_over(struct tek_worker *worker, struct tek_uthread *thread);

/*
 * By the carrier's own context, which may not run `next` (NULL: no thread is ready): a spare
 * carrier takes the worker, first with that thread; if there is none, the monitor provides one.
 */
void tek_ut__carrier_pass_on(struct tek_worker *worker, struct tek_uthread *next);

/* `thread` belongs to a carrier: that carrier carries this worker, which has none, from here on. */
void tek_ut__carrier_resume(struct tek_worker *worker, struct tek_uthread *thread);

/*
 * Sends it a tick, unless one is under way: two ticks would queue up. False: it could not be sent.
 * From anywhere.
 */
bool tek_ut__carrier_kick(struct tek_carrier *carrier);

/* The thread with this storage is of that worker from now on. */
void tek_ut__carrier_set_worker(struct tek_here *here, struct tek_worker *worker);

/*
 * Takes the worker away from its carrier if the carrier, with its thread, is blocked in the kernel:
 * `is_held_up` is asked, twice. Returns whether; then the worker has no carrier. By the monitor
 * (monitor.h).
 */
bool tek_ut__carrier_take_worker(struct tek_worker *worker,
				 bool (*is_held_up)(const struct tek_carrier *));

/* In the child of fork(): only the calling kernel thread is left. */
void tek_ut__carriers_after_fork(void);

#endif
