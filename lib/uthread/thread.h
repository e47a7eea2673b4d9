/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A user-level thread, and its life.
 *
 *   tek_ut__new()      a structure at the top of a stack, from a pool
 *   tek_ut__launch()   it is ready: from here on it may run, and end, at any moment
 *   tek_ut__end()      by itself, last: it never runs again
 *   tek_ut__join(), tek_ut__detach()
 *                           the last of these and its end gives structure and stack back
 *
 * The first thread of the program is one too, on the stack that it has (engine.h). Its structure
 * and stack are never given back.
 *
 * Access to another thread's fields: those before `routine` belong to its holder (its worker while
 * it runs, the scheduler while it is ready); those behind have a comment each.
 */
#ifndef TEK_UTHREAD_THREAD_H
#define TEK_UTHREAD_THREAD_H

#include "arch/context.h"
#include "uthread/heap.h"
#include "uthread/spin.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct tek_carrier;
struct tek_side;
struct tek_tls;
struct tek_waiter;
struct tek_worker;

/* The schedulers' (sched.h) state of a thread. */
struct tek_sched_state {
	struct tek_uthread *next;     /* in its run queue */
	struct tek_uthread *previous; /* the same, where that is a deque (deque.h); else NULL */
	struct tek_heap_node node;    /* in its run queue, where that is a heap */
	struct tek_worker *assigned;  /* the worker that it was dealt to, or that it ran on last */
	_Alignas(8) uint64_t quanta;  /* that it has used up */
	uint64_t level_since;         /* of mlfq: since when it has been at its level, in quanta */
	unsigned int level;   /* of mlfq: 0 is the first; 4: there because it was promoted */
	unsigned int ticks;   /* of mlfq: quanta that it has used at its level */
	signed char priority; /* a greater one goes first: of fifo, and of critical threads */
	bool critical;        /* before all that are not, in every scheduler */
};

/* struct tek_uthread.token: park and unpark (worker.h). */
enum { TEK_TOKEN_NONE, TEK_TOKEN_UNPARKED, TEK_TOKEN_PARKED };

/* struct tek_uthread.joiner: an address, or one of these. */
#define TEK_JOIN_NONE ((uintptr_t)0)
#define TEK_JOIN_ENDED ((uintptr_t)1)
#define TEK_JOIN_DETACHED ((uintptr_t)2)

struct tek_uthread {
	struct tek_context context;
	atomic_uint token;
	unsigned int defer;    /* `defer` at the time when it left its worker */
	struct tek_here *here; /* its own, if it has thread-local storage of its own; else NULL */
	uintptr_t tls;         /* then the thread pointer for it */
	struct tek_carrier *carrier; /* the kernel thread that it cannot leave now; NULL: any */
	bool bound;                  /* it can never leave it: bound.h */
	bool changed;                /* and threads that it creates inherit kernel state from it */
	bool stopped; /* in mid-run, on that kernel thread; else its context is saved */
	struct tek_sched_state sched;
	uint64_t mask;          /* signals that it blocks, as bits: signal n is bit n - 1 */
	struct tek_side *shown; /* its side record in the table: shown.h; NULL: none */

	void *(*routine)(void *);
	void *argument;
	void *result;
	_Atomic uintptr_t joiner; /* struct tek_waiter of the joining thread, or TEK_JOIN_* */
	uint64_t id;        /* from 1, never used again; the first thread has 1; 0: it is free */
	char *stack_low;    /* lowest byte of its stack, above the guard; NULL: not known */
	size_t stack_bytes; /* from there up */
	size_t block_bytes; /* of the block that this structure ends; 0: it is in none */
	struct tek_uthread *next_free;
	struct tek_uthread *all_next; /* of all, also those that are free: tek_ut__uthreads */
	char name[16];
	unsigned char waits_for; /* for observers: TEK_WAITS_* of tek_record.h */
	struct tek_spin interrupt_lock;
	/* Both under interrupt_lock: the wait that tek_ut__interrupt() ends; */
	struct tek_waiter *interruptible;
	bool interrupted;               /* it was interrupted, and has not reported it yet */
	bool sync_unparked;             /* posix/sync_host.c */
	struct tek_waiter *sync_parked; /* NULL: it is not parked */
	unsigned int sync_yields;
	void *keys;              /* uthread/key.c */
	void *posix;             /* its record for the pthread functions: preload/uthread */
	struct tek_tls *own_tls; /* uthread/tls.h */
	void *fiber;             /* of a sanitizer: uthread/sanitizer.h */
	unsigned int slot;       /* table.c: stays when the structure is reused */
	unsigned int read_locks; /* number that it holds, of all read-write locks: rwlock.c */
	void *own_stack;         /* the program's memory that it is on: own_stacks.h; or NULL */
	struct tek_uthread *next_on_own_stack;
	void (*at_end)(struct tek_uthread *); /* by itself, before it ends; NULL: nothing */
};

/*
 * All structures that ever existed, for observers. The list only grows, at its front, and its
 * memory stays, so a reader needs no lock. Threads with an id live, or have ended and were not
 * joined.
 */
extern struct tek_uthread *_Atomic tek_ut__uthreads __attribute__((visibility("hidden")));

/* Attributes of a new thread. Zero: the engine's defaults. */
struct tek_uthread_creation {
	size_t stack_bytes;
	void *stack; /* memory of the program's own; NULL: from the pool */
	bool detached;
	bool critical;
	bool has_priority;
	signed char priority;
};

/*
 * A thread that will run routine(argument); NULL: there is no memory. `creation` may be NULL. Needs
 * deferred preemption, as do the other functions here unless noted otherwise.
 */
struct tek_uthread *tek_ut__new(const struct tek_uthread_creation *creation,
				void *(*routine)(void *), void *argument);
void tek_ut__launch(struct tek_uthread *thread);

/* It never ran: gives it back. */
void tek_ut__drop(struct tek_uthread *thread);

/* The calling thread ends with this result. Destructors and handlers have run. */
_Noreturn void tek_ut__end(void *result);

/*
 * Waits until it has ended, at most until `deadline` (CLOCK_MONOTONIC; NULL: for ever), and gives
 * it back. 0, EINVAL (detached, or another thread joins it), EDEADLK (the caller itself),
 * ETIMEDOUT, EINTR (see tek_ut__wait). The caller has not deferred preemption.
 */
int tek_ut__join(struct tek_uthread *thread, void **result, const struct timespec *deadline);

/* 0 or EINVAL. Not deferred. */
int tek_ut__detach(struct tek_uthread *thread);

/* When a thread that has ended cannot be disturbed any more: wakes its joiner, or gives it back. */
void tek_ut__ended(struct tek_uthread *thread);

static inline bool tek_ut__is_detached(struct tek_uthread *thread)
{
	return atomic_load_explicit(&thread->joiner, memory_order_relaxed) == TEK_JOIN_DETACHED;
}

#endif
