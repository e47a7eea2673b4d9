/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Carriers: the kernel threads that carry workers.
 *
 * There is one for each worker, and spare ones.  A thread that is held up in the kernel, in a call that
 * the engine does not know (the C library's own, a file's pages), holds up its carrier.  The monitor, a kernel thread
 * that sleeps until a tick says that something may be wrong, sees that in /proc and gives the worker to a spare
 * carrier.  The one that is held up then belongs to its carrier (struct tek_uthread.carrier): when
 * the call returns it goes on in its program without a worker, until it next comes to the engine or a
 * tick is sent to it, and there it waits for one.  A program of kernel threads would have run it in parallel, too.
 *
 * With KLT preemption (preempt.h) this is how threads are preempted.
 *
 * A carrier may be for one thread only, and a thread for one carrier: bound.h.
 *
 * Taking a worker away races with its carrier, which may just be coming back.  The monitor writes "no worker" to
 * what tek__enter() reads (here->entry), makes all CPUs pass a memory barrier (membarrier(2)), and reads whether the thread is in the engine
 * (`defer`); the thread writes `defer` and then reads its worker.  So at least one of them sees the other.
 * If both do, here->lock decides.  The thread may have left its worker and come back meanwhile, to another one or on
 * another carrier: each time that is written to here->entry, so the monitor closes it only if it says what the
 * monitor believes, and takes the worker only if it is closed still.
 */
#ifndef TEK_UTHREAD_CARRIER_H
#define TEK_UTHREAD_CARRIER_H

#include "uthread/here.h"
#include "uthread/spin.h"
#include "uthread/thread.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

struct tek_carrier {
	struct tek_uthread context;   /* its own: what it does while it has no thread to run */
	atomic_int tid;               /* 0: its kernel thread has not begun, or ends */
	atomic_int ended;             /* the id of the one before, which may still end; 0: none */
	struct tek_here *kernel_here; /* of the storage of its kernel thread */
	int timer;                    /* its ticks: preempt.c; -1: none */
	atomic_uint called;           /* a worker has been given to it: a futex */
	struct tek_worker *given;     /* which */
	struct tek_carrier *next;     /* of the spare ones */
	struct tek_carrier *all;      /* of all, */
	bool listed;                  /* where it is */
	struct tek_uthread *_Atomic detached; /* whom it carries without a worker; NULL: nobody */
	atomic_bool aside;  /* who has left it of his own accord, and comes back: posix/aside.h */
	void *signal_stack; /* overflow.h; it stays with the structure */
	atomic_bool kicked; /* a tick has been sent that has not come yet */
	atomic_uint place;  /* the CPU + 1 that it is kept to; 0: none (affinity.h) */
	/* Which threads it may run: bound.h. */
	bool dedicated;                   /* `only`, and no other */
	struct tek_uthread *_Atomic only; /* NULL: that one has ended */
	unsigned int generation;          /* of kernel state: tek__carrier_generation */
	struct tek_uthread *main; /* of the process's first kernel thread: whose it is; else NULL */
};

extern struct tek_carrier *_Atomic tek__carriers __attribute__((visibility("hidden")));

/* The calling kernel thread becomes the carrier of worker 0, and goes on as `first`. 0 or an error number. */
int tek__carrier_adopt(struct tek_worker *worker, struct tek_uthread *first);

/*
 * The engine could not be started: the kernel thread that was adopted is one that is not the engine's.  It does nothing if
 * none was.
 */
void tek__carrier_disown(void);

/*
 * Counts the changes that the kernel state of the whole process has gone through (bound.h).  A
 * carrier of an earlier generation runs no thread any more.
 */
extern atomic_uint tek__carrier_generation __attribute__((visibility("hidden")));

/* Whether this thread may run there. */
static inline bool tek__carrier_may_run(const struct tek_carrier *carrier,
					const struct tek_uthread *thread)
{
	if (carrier->dedicated)
		return atomic_load(&carrier->only) == thread;
	return carrier->generation == atomic_load(&tek__carrier_generation);
}

/* Whether it runs no thread any more. */
static inline bool tek__carrier_is_over(const struct tek_carrier *carrier)
{
	return carrier->dedicated ? !atomic_load(&carrier->only)
				  : !tek__carrier_may_run(carrier, NULL);
}

/*
 * A new kernel thread that carries `worker`, or is a spare one (NULL).  `generation`: of the caller's
 * kernel state, which it inherits.  0 or an error number.
 */
int tek__carrier_start(struct tek_worker *worker, unsigned int generation);

/*
 * A new kernel thread with the kernel state of the caller's.  It runs one thread only, which the caller
 * writes to carrier->only.  NULL: none can be had.
 */
struct tek_carrier *tek__carrier_start_dedicated(void);

/* It has no worker, and its kernel thread waits for one: that ends. */
void tek__carrier_dismiss(struct tek_carrier *carrier);

/* The thread stops in the middle of something, on this carrier. */
static inline void tek__carrier_pin(struct tek_uthread *thread, struct tek_carrier *carrier)
{
	thread->carrier = carrier;
	thread->stopped = true;
}

/* It goes on there. */
static inline void tek__carrier_unpin(struct tek_uthread *thread)
{
	thread->stopped = false;
	if (!thread->bound)
		thread->carrier = NULL;
}

/* Gives it a worker that nobody carries, or from which the caller steps back. */
void tek__carrier_give_worker(struct tek_carrier *spare, struct tek_worker *worker);

/*
 * By a user-level thread whose worker has been given to somebody else: it becomes ready, and waits, on its carrier,
 * until it is its turn.  Returns its new worker.  In a signal handler, too.
 */
struct tek_worker *tek__carrier_wait(struct tek_uthread *self, struct tek_carrier *carrier);

/*
 * By a user-level thread: it stops here, on its carrier, and is ready; its worker goes on with the next one.  Returns
 * when it is its turn, or false at once: there is nobody who could go on, perhaps for want of a spare carrier.  In a
 * signal handler, too.
 */
bool tek__carrier_stop_here(struct tek_worker *worker);

/*
 * By a user-level thread between tek__enter() and tek__leave(): it goes on without its worker, which the caller gives to
 * another carrier.  `aside`: it comes back by itself (posix/aside.h); else the monitor reminds it.
 */
void tek__carrier_leave_worker(struct tek_worker *worker, bool aside);

/* By the carrier's own context: `thread` belongs to another carrier, which gets this worker. */
void tek__carrier_hand_over(struct tek_worker *worker, struct tek_uthread *thread);

/*
 * By the carrier's own context, which may not run `next` (NULL: no thread is ready): a spare carrier carries the worker
 * on, first with that thread; if there is none, the monitor finds one.
 */
void tek__carrier_pass_on(struct tek_worker *worker, struct tek_uthread *next);

/* `thread` belongs to a carrier: that one carries this worker, which nobody does now, from here on. */
void tek__carrier_resume(struct tek_worker *worker, struct tek_uthread *thread);

/*
 * Sends it a tick, unless one is under way: they would wait one behind the other.  False: it could not be sent.  From
 * anywhere.
 */
bool tek__carrier_kick(struct tek_carrier *carrier);

/* Whoever has this storage is of that worker from now on. */
void tek__carrier_set_worker(struct tek_here *here, struct tek_worker *worker);

/*
 * Takes the worker away from its carrier if the kernel holds that up, with whom it runs: `is_held_up` is asked, twice.
 * Returns whether; then nobody carries it.  By the monitor (monitor.h).
 */
bool tek__carrier_take_worker(struct tek_worker *worker,
			      bool (*is_held_up)(const struct tek_carrier *));

/* In the child of fork(): only the calling kernel thread is left. */
void tek__carriers_after_fork(void);

#endif
