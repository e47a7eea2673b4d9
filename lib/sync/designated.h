/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The designated waiter: only one waiter of a lock polls it. The other waiters sleep until that one
 * has the lock: the designation is a futex mutex. Used by lock_park.c and lock_auto.c.
 *
 * An unlocker wakes one thread, and only if the lock's word says that a thread may sleep for the
 * lock itself. Now and then it reserves the lock for waiters that have slept: running threads would
 * always precede them.
 *
 * Three kinds of waiters bypass the designation and wait for the lock itself:
 *   - A real-time thread: the designated waiter may be of lower priority and not run. The kernel
 *     wakes the sleeper of the highest priority.
 *   - A waiter with a deadline.
 *   - A waiter that has waited TEK_DESIGNATION_NS for the designation: the designated waiter may be
 *     stopped, or in a signal handler.
 */
#ifndef TEK_SYNC_DESIGNATED_H
#define TEK_SYNC_DESIGNATED_H

#include "sync/lock.h"
#include "sync/waiting.h"
#include "sync/word.h"

/* How long a lock stays reserved for a woken waiter: by then it runs, or it has left. */
#define TEK_RESERVED_NS 200000

/* A lock is reserved for waiters that have slept. They do not precede a real-time thread. */
static inline void tek_sync__let_come_first(void)
{
	if (!tek_sync__is_real_time())
		tek_sync__nap(TEK_RESERVED_NS);
}

/*
 * Called by a woken waiter that came too late: true if the lock is to be reserved for starved
 * waiters. By chance, because the one woken is the first sleeper: with a count that could always be
 * another one.
 */
static inline bool tek_sync__is_starved(void)
{
	return tek__in_ns(0).tv_nsec >> 6 & 1;
}

#define TEK_DESIGNATION_NS 4000000

/*
 * Locks by `take`, which several threads may run at once, and returns its result: 0, ETIMEDOUT,
 * EINVAL.
 */
static inline int tek_sync__wait_for_designation(struct tek_lock *lock, atomic_uint *designation,
						 struct tek_until until,
						 int (*take)(struct tek_lock *lock,
							     struct tek_until until))
{
	struct timespec end;
	int error;

	if (until.at || tek_sync__is_real_time())
		return take(lock, until);
	if (!tek_sync__word_try(designation)) {
		end = tek__in_ns(TEK_DESIGNATION_NS);
		if (tek_sync__word_sleep(designation, (struct tek_until){CLOCK_MONOTONIC, &end}))
			return take(lock, until);
	}
	error = take(lock, until);
	tek_sync__word_unlock(designation);
	return error;
}

#endif
