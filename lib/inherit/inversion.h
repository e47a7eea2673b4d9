/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Inversions: a Fast thread waits for a lock, or for the end of a thread, and the holder is not
 * Fast by itself. The table counts them and has the longest ones (threads/inversions.h).
 *
 * The waiter begins a wait and ends it. The review in between names the holder, under the lock.
 * Where no review found one there is no inversion, and no record. A thread that becomes Fast during
 * its wait is not recorded.
 *
 * The estimated wait without a lift is the wait, and the time that the holder would have waited for
 * a CPU. That is the CPU time of the lift, times the run delay that the holder had for each unit of
 * CPU time while it was not Fast.
 */
#ifndef TEK_INHERIT_INVERSION_H
#define TEK_INHERIT_INVERSION_H

#include "threads/thread.h"

#include <stdint.h>

/*
 * The calling thread, which is Fast, waits for an object from now on; `kind` is one of TEK_WAITS_*
 * (tek_record.h), `object` the lock, 0 for a join, and `call` the address to which the function
 * returns that waits. Takes the lock if the call lies in another file than those before.
 */
void tek__inversion_begin(unsigned int kind, uintptr_t object, uintptr_t call);

/*
 * The same for a wait for a condition variable, which becomes one for its mutex when it is marked,
 * and is none any more if it only seemed so. Those two need the lock.
 */
void tek__inversion_prepare(const void *mutex, uintptr_t call);
void tek__inversion_marked(struct tek_thread *waiter);
void tek__inversion_unmarked(struct tek_thread *waiter);

/* A review found the thread that holds what a Fast thread waits for. Needs the lock. */
void tek__inversion_found(struct tek_thread *waiter, const struct tek_thread *holder);

/*
 * The wait of the calling thread is over: ends the lifts that have no reason any more, and records
 * the inversion, if it was one. Takes the lock if there is something to do.
 */
void tek__inversion_end(void);

/* The calling thread, which is lifted, is about to unlock this. Needs no lock. */
void tek__inversion_releases(const void *lock, uintptr_t call);

/* A thread ends: what is known of it is noted for those that wait for it. Needs the lock. */
void tek__inversion_thread_ends(struct tek_thread *thread);

/* In the child of a fork. */
void tek__inversion_forget(void);

#endif
