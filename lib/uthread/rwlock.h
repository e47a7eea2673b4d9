/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Read-write locks. An all-zero one is ready for use, and prefers readers.
 *
 * A waiter is granted the lock by the thread that unlocks it or opens it to readers: no wake-up is
 * in vain.
 *
 *   prefers readers: a reader waits only for a writer that holds the lock, so a thread may
 *                    read-lock it several times; when a writer unlocks it all waiting readers come
 *                    first
 *   prefers writers: a reader waits if a writer waits, so a thread must not read-lock it twice;
 *                    on an unlock the first waiting writer comes first
 *
 * These rules hold among threads of priority 0. Waiters of greater priority, and critical ones,
 * come before them, by priority, and among equals writers first. A reader of such a priority waits
 * if a writer of no lesser priority waits, unless the reader holds a read lock already: that may be
 * this lock. POSIX specifies this for SCHED_FIFO and SCHED_RR.
 *
 * Lock: the guard bit of the state (guard.h). No thread touches the object after the store that
 * unlocks it.
 */
#ifndef TEK_UTHREAD_RWLOCK_H
#define TEK_UTHREAD_RWLOCK_H

#include "base/until.h"
#include "uthread/guard.h"
#include "uthread/own.h"
#include "uthread/wait.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* tek_rwlock.state */
#define TEK_RWLOCK_GUARD 1u
#define TEK_RWLOCK_WRITER 2u  /* a writer holds it */
#define TEK_RWLOCK_WAITERS 4u /* the list has a waiter */
#define TEK_RWLOCK_BARRED 8u  /* to readers: a writer goes first */
#define TEK_RWLOCK_URGENT 16u /* a writer of a priority other than 0 waits */
#define TEK_RWLOCK_READER 32u /* times the number of readers that hold it */

/* tek_rwlock.kind: as glibc has them in its static initialisers. */
enum {
	TEK_RWLOCK_PREFER_READER = 0,
	TEK_RWLOCK_PREFER_WRITER_RECURSIVE =
		1, /* as the first: else recursion would not be possible */
	TEK_RWLOCK_PREFER_WRITER = 2,
};

/*
 * It lies in the C library's pthread_rwlock_t, which has "shared by processes" among the reserved
 * words or behind `kind`; that field stays zero: preload/uthread/rwlock.c.
 */
struct tek_rwlock {
	atomic_uint state;
	_Atomic uintptr_t writer; /* tek_ut__me(); 0: none, or the writer has not stored it yet */
	uintptr_t reserved[2];
	struct tek_waiters waiters;
	unsigned char kind;
};

/*
 * 0 or
 *   EBUSY      try: it is not available at once
 *   EDEADLK    the caller is its writer
 *   EAGAIN     134 million readers have it
 *   ETIMEDOUT, EINTR (interruptible), EINVAL (`until` is no time)
 * Not between tek_ut__enter() and tek_ut__leave().
 */
int tek_ut__rwlock_read(struct tek_rwlock *lock, struct tek_until until, bool interruptible);
int tek_ut__rwlock_write(struct tek_rwlock *lock, struct tek_until until, bool interruptible);
int tek_ut__rwlock_try_read(struct tek_rwlock *lock);
int tek_ut__rwlock_try_write(struct tek_rwlock *lock);

/* 0, or EPERM if no thread holds it. */
int tek_ut__rwlock_unlock(struct tek_rwlock *lock);

/* Whether a thread holds it or waits for it. */
bool tek_ut__rwlock_is_used(struct tek_rwlock *lock);

#endif
