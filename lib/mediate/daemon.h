/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The client of tekd, for a process that may not make its threads real-time itself: tekd makes
 * each switch, within what its configuration grants.
 *
 * Budgets and the ends of timed stays are tekd's then. It sends a NOTICE when it takes a thread
 * back. The library receives that when it calls tekd or is queried about a thread (region.h). When
 * the connection ends on either side, all that was granted over it ends.
 *
 * All functions need the lock (threads/process.h) unless noted otherwise.
 */
#ifndef TEK_MEDIATE_DAEMON_H
#define TEK_MEDIATE_DAEMON_H

#include "threads/member.h"

#include <stdatomic.h>
#include <sys/types.h>

/*
 * Whether a thread of this process was ever Fast by tekd; until then there is nothing to receive.
 */
extern atomic_bool tek__daemon_was_used;

static inline bool tek__daemon_is_in_play(void)
{
	return atomic_load_explicit(&tek__daemon_was_used, memory_order_relaxed);
}

/* Connect, if need be. Returns what tekd grants this process, TEK_GRANT_*, 0 for nothing. */
unsigned int tek__daemon_grant(void);

/* Whether it is there already, and makes the switches. No system call where it is not. */
bool tek__daemon_serves(void);

/*
 * Bring a thread before everything fair for that stay.  Fills what member has of it.  Returns 0, or
 * EPERM, EDQUOT, EAGAIN or ESRCH as tek/tek.h has them, or ETIME if the stay is over; then nothing
 * changed.
 */
int tek__daemon_enter(pid_t tid, struct tek_member *member, struct tek_stay stay);

/* Another stay for one that entered. Returns 0, or ETIME if the stay is over: it is to leave. */
int tek__daemon_move(pid_t tid, struct tek_member *member, struct tek_stay stay);

/*
 * Has tekd restore the values that the thread had before it became Fast. If tekd is gone, this
 * process lowers the thread itself.
 */
void tek__daemon_leave(pid_t tid, struct tek_member *member);

/* The same for one that has ended, or is about to: its tid may be another's. */
void tek__daemon_end(pid_t tid, struct tek_member *member);

/*
 * Put a thread into a group of the device. Returns 0; EPERM and other errors of tekd's, ESRCH if
 * the thread ends, EBUSY if that was a request too many, EOPNOTSUPP if tekd makes no groups, ENOENT
 * if it is not there, and ENOTCONN if it does not answer.
 *
 * A connection that is made for this is closed when no thread is starting any more, as such a
 * thread may be the next to be placed: tek__daemon_placed() does so, after this and whenever a
 * thread has begun.
 */
int tek__daemon_place(pid_t tid, unsigned int group);
void tek__daemon_hang_up(void);
extern bool tek__daemon_is_placing;
static inline void tek__daemon_placed(void)
{
	if (tek__daemon_is_placing)
		tek__daemon_hang_up();
}

/* Receive the pending NOTICEs of tekd. */
void tek__daemon_listen(void);

/* Whether it took this thread back, which is still a member. Fills *taken. */
bool tek__daemon_has_taken(const struct tek_member *member, struct tek_taken *taken);

/* In the child of a fork. */
void tek__daemon_forget(void);

#endif
