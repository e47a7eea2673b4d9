/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The process that TEK lives in: when it begins, the one lock, and what a fork
 * does to both.
 *
 * Everything that TEK knows about the threads of the process is guarded by one
 * lock with priority inheritance (ident/lock.h).  It is held for some hundred
 * nanoseconds and a few system calls; the table's file and the guard thread are
 * made under it, once, and warnings are written after it.
 */
#ifndef TEK_IDENT_PROCESS_H
#define TEK_IDENT_PROCESS_H

#include "ident/self.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Begin, once in a process image: find the C library's functions, read the
 * configuration, register for fork.  Cheap afterwards.  Callable from anywhere,
 * from other libraries' constructors too.
 */
void tek__start(void);

/*
 * Take the lock.  False if the calling thread holds it already, which means that
 * a signal handler interrupted TEK, or if TEK stands down in this program: the
 * caller then does without TEK.  While the lock is held the thread cannot be
 * cancelled.
 */
bool tek__lock(void);

/* Release the lock, then write the events that were noted under it. errno is as at tek__lock(). */
void tek__unlock(void);

/*
 * For a few writes to memory, without a system call and without a function of the C
 * library: take the lock if that is possible at once, else false, and tek__lock() is the
 * way.  A thread that has made itself cancellable at any moment
 * (PTHREAD_CANCEL_ASYNCHRONOUS) must not be cancelled here.
 */
bool tek__lock_brief(void);
void tek__unlock_brief(void);

/* The process id, cached. */
pid_t tek__pid(void);

/* Size of a page; set by tek__start(). */
extern size_t tek__page_bytes;

/* tek__self_epoch() of the process that TEK knows. */
extern unsigned int tek__process_epoch;

/*
 * Without the lock: this is the process that TEK knows, not the child of a fork that it
 * has not noticed yet, and the calling thread's variables are its own.
 */
static inline bool tek__process_is_known(void)
{
	unsigned int epoch = __atomic_load_n(tek__epoch, __ATOMIC_RELAXED);
	return epoch != 0 && epoch == tek__process_epoch && tek__self.epoch == epoch;
}

#endif
