/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Read-write locks.  One that is all zero is ready for use, and prefers readers.
 *
 * Who waits is granted the lock by whoever makes it free, or lets it go to readers: it is never woken in vain.
 *
 *   prefers readers: a reader gets it unless a writer has it, so a thread may have it several times; when a
 *                    writer lets it go all readers that wait come first
 *   prefers writers: a reader waits if a writer waits, so a thread must not have it twice; when anybody lets it go
 *                    the first writer comes first
 *
 * That is among threads of priority 0.  Those who wait with a greater one, or are critical, come before them, by priority, and
 * among equals writers first.  A reader of such a priority waits if a writer waits who is not of a lesser one, unless
 * it has read-locked something already: that may be this lock.  POSIX has it so for SCHED_FIFO and SCHED_RR.
 *
 * Lock: the guard bit of the state (guard.h).  Nobody touches the object after the store that lets it go.
 */
#ifndef TEK_UTHREAD_RWLOCK_H
#define TEK_UTHREAD_RWLOCK_H

#include "sync/until.h"
#include "uthread/guard.h"
#include "uthread/own.h"
#include "uthread/wait.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* tek_rwlock.state */
#define TEK_RWLOCK_GUARD 1u
#define TEK_RWLOCK_WRITER 2u  /* a writer has it */
#define TEK_RWLOCK_WAITERS 4u /* somebody is in the list */
#define TEK_RWLOCK_BARRED 8u  /* to readers: a writer goes first */
#define TEK_RWLOCK_URGENT 16u /* a writer waits whose priority is not 0 */
#define TEK_RWLOCK_READER 32u /* times how many have it */

/* tek_rwlock.kind: as glibc has them in its static initialisers. */
enum {
	TEK_RWLOCK_PREFER_READER = 0,
	TEK_RWLOCK_PREFER_WRITER_RECURSIVE =
		1, /* as the first: else recursion would not be possible */
	TEK_RWLOCK_PREFER_WRITER = 2,
};

/*
 * It lies in the C library's pthread_rwlock_t, which has "shared by processes" among the reserved words or behind `kind`,
 * and that stays zero: preload/uthread/rwlock.c.
 */
struct tek_rwlock {
	atomic_uint state;
	_Atomic uintptr_t writer; /* tek__me(); 0: nobody, or it has not got there yet */
	uintptr_t reserved[2];
	struct tek_waiters waiters;
	unsigned char kind;
};

/*
 * 0 or
 *   EBUSY      try: it is not to be had at once
 *   EDEADLK    the caller is its writer
 *   EAGAIN     134 million readers have it
 *   ETIMEDOUT, EINTR (interruptible), EINVAL (`until` is no time)
 * Not between tek__enter() and tek__leave().
 */
int tek__rwlock_read(struct tek_rwlock *lock, struct tek_until until, bool interruptible);
int tek__rwlock_write(struct tek_rwlock *lock, struct tek_until until, bool interruptible);
int tek__rwlock_try_read(struct tek_rwlock *lock);
int tek__rwlock_try_write(struct tek_rwlock *lock);

/* 0, or EPERM if nobody has it. */
int tek__rwlock_unlock(struct tek_rwlock *lock);

/* Whether anybody has it, or waits. */
bool tek__rwlock_is_used(struct tek_rwlock *lock);

#endif
