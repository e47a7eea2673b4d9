/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Of those who wait for a lock one alone has the turn to look for it, and who unlocks it has at most that one to wake, now and
 * then.  The others sleep until that one has the lock: the turn is a futex mutex of its own.
 *
 * A real-time thread needs no turn: who has it may be of lesser priority, and not run.  Of those who sleep for the lock itself
 * the kernel wakes the one of the highest priority.  Nor does who waits until a point of time, nor who has waited for its
 * turn for some ms: who has it may be stopped, or in a signal handler.
 */
#ifndef TEK_SYNC_TURN_H
#define TEK_SYNC_TURN_H

#include "sync/lock.h"
#include "sync/waiting.h"
#include "sync/word.h"

/* So long it takes at most until who was woken runs, for whom a lock is kept; or it has gone. */
#define TEK_KEPT_NS 200000

/* A lock is kept for those who have slept.  They do not come before a real-time thread. */
static inline void tek__let_come_first(void)
{
	if (!tek__is_real_time())
		tek__nap(TEK_KEPT_NS);
}

/*
 * Whether a lock is to be kept for those who have slept for it, by one that was woken and was too late.  By chance: the one
 * that is woken then is the first that sleeps, and if it went by numbers that could always be another one.
 */
static inline bool tek__is_owed(void)
{
	return tek__in_ns(0).tv_nsec >> 6 & 1;
}

#define TEK_TURN_NS 4000000

/* By `take`, which several may be in, and which returns what this does: 0, ETIMEDOUT, EINVAL. */
static inline int tek__wait_in_turn(struct tek_lock *lock, atomic_uint *turn,
				    struct tek_until until,
				    int (*take)(struct tek_lock *lock, struct tek_until until))
{
	struct timespec end;
	int error;

	if (until.at || tek__is_real_time())
		return take(lock, until);
	if (!tek__word_try(turn)) {
		end = tek__in_ns(TEK_TURN_NS);
		if (tek__word_sleep(turn, (struct tek_until){CLOCK_MONOTONIC, &end}))
			return take(lock, until);
	}
	error = take(lock, until);
	tek__word_unlock(turn);
	return error;
}

#endif
