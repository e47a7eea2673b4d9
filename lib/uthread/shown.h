/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Writes the running state of user-level threads to the thread table (abi/tek_table.h): the worker
 * of each thread, its wait, and the carrier of each worker. Each of these is one store without a
 * lock. tek_ut__shown_lives() and tek_ut__shown_ends() add and remove a record (table.h), which may
 * take a lock. Without a table the functions do nothing.
 */
#ifndef TEK_UTHREAD_SHOWN_H
#define TEK_UTHREAD_SHOWN_H

#include "tek_abi.h"
#include "uthread/thread.h"

#include <stdbool.h>

/* The workers of the table; NULL: there is none. */
extern struct tek_worker_place *_Atomic tek_ut__shown_workers __attribute__((visibility("hidden")));

/* It goes on on this worker. */
static inline void tek_ut__shown_runs(const struct tek_uthread *thread, unsigned int worker)
{
	if (thread->shown)
		__atomic_store_n(&thread->shown->worker, (tek_u16)(worker + 1), __ATOMIC_RELAXED);
}

/*
 * Where creating a thread must cost nothing, a thread enters the table only when it has waited,
 * yielded or been preempted: then it has lived longer than writing a record takes. The first
 * function adds a missing thread; NULL: there is no room, no table, or all are there. The second
 * one is for threads that end.
 */
extern void (*tek_ut__shown_newcomer)(struct tek_uthread *thread)
	__attribute__((visibility("hidden")));
extern void (*tek_ut__shown_gone)(struct tek_uthread *thread) __attribute__((visibility("hidden")));

/* The calling thread has lived for a while. Between tek_ut__enter() and tek_ut__leave(). */
static inline void tek_ut__shown_lives(struct tek_uthread *thread)
{
	if (__builtin_expect(!thread->shown, 0)) {
		void (*newcomer)(struct tek_uthread *) = __atomic_load_n(&tek_ut__shown_newcomer,
									 __ATOMIC_RELAXED);
		if (__builtin_expect(newcomer != NULL, 0))
			newcomer(thread);
	}
}

/* It ends, and does not leave the engine any more. */
static inline void tek_ut__shown_ends(struct tek_uthread *thread)
{
	if (__builtin_expect(thread->shown != NULL, 0) && tek_ut__shown_gone)
		tek_ut__shown_gone(thread);
}

/* It waits for this from now on: TEK_WAITS_*. */
static inline void tek_ut__shown_waits(const struct tek_uthread *thread, unsigned char what)
{
	if (thread->shown)
		__atomic_store_n(&thread->shown->waits, what, __ATOMIC_RELAXED);
}

/* The worker is carried by this kernel thread from now on. */
static inline void tek_ut__shown_carried(unsigned int worker, int tid)
{
	struct tek_worker_place *places = atomic_load_explicit(&tek_ut__shown_workers,
							       memory_order_relaxed);
	if (places)
		__atomic_store_n(&places[worker].tid, (tek_u32)tid, __ATOMIC_RELAXED);
}

#endif
