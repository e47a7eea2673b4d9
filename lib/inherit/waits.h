/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The objects that threads wait for, and the threads that are lifted for them.
 *
 * Each thread has one word (waits_for in threads/thread.h) that names the object it waits for. A
 * holder of the object may itself wait: the chain is followed to its end, at most
 * TEK_CHAIN_LENGTH threads far. A chain with a circle is a deadlock, and lifts no thread. Beyond
 * that length a circle is found if each thread of it waits for one other, not for readers.
 */
#ifndef TEK_INHERIT_WAITS_H
#define TEK_INHERIT_WAITS_H

#include "threads/thread.h"

#include <stdint.h>

enum { TEK_CHAIN_LENGTH = 32 };

/* The kinds of objects, in the lowest bits of the word: locks are aligned to at least 4 bytes. */
enum tek_waits_for {
	TEK_WAITS_FOR_MUTEX = 1,
	TEK_WAITS_FOR_RWLOCK = 2,
	TEK_WAITS_FOR_END = 3, /* of a thread of this process */
	TEK_WAITS_FOR_KIND = 3,
};

static inline uintptr_t tek__waits_for(enum tek_waits_for kind, const void *lock)
{
	return (uintptr_t)lock | (uintptr_t)kind;
}

static inline uintptr_t tek__waits_for_end(pid_t tid)
{
	return (uintptr_t)tid << 2 | TEK_WAITS_FOR_END;
}

/*
 * The calling thread waits for the object from now on; 0: for none. Returns the word of before,
 * which the caller puts back afterwards: a signal handler may wait in the midst of another wait.
 */
static inline uintptr_t tek__waits_set(struct tek_thread *self, uintptr_t object)
{
	uintptr_t before = self->waits_for;

	/* In one order with tek__times_lifted: see review() in waits.c. */
	__atomic_store_n(&self->waits_for, object, __ATOMIC_SEQ_CST);
	return before;
}

/*
 * Before tek__waits_set(): the calling thread holds that object itself, which is a deadlock; 0: it
 * does not. Returns the word of before, likewise.
 */
static inline uintptr_t tek__waits_set_own(struct tek_thread *self, uintptr_t object)
{
	uintptr_t before = self->waits_for_own;

	__atomic_store_n(&self->waits_for_own, object, __ATOMIC_SEQ_CST);
	return before;
}

/*
 * Lifts each thread for which a Fast thread waits now, and ends the lifts that have lost their
 * reason. Needs no lock, and takes it. Does nothing in a signal handler that interrupted TEK.
 */
void tek__waits_changed(void);

/* The same, at most once a millisecond: many threads may check at the same time. */
void tek__waits_check(void);

/* The same as tek__waits_changed(). Needs the lock. */
void tek__waits_review(void);

/* After a wait: whether a lift or a known deadlock may have lost its reason. Needs no lock. */
bool tek__waits_have_effects(void);

/* In the child of a fork. */
void tek__waits_forget(void);

/*
 * The calling thread waits for the end of a thread from now on. `call` is the address to which the
 * function returns that joins. False: nothing was done, because the other thread is not known, or
 * no thread of the process has been Fast yet. Takes the lock.
 */
bool tek__join_begins(pthread_t handle, uintptr_t call);
void tek__join_ends(void);

#endif
