/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The backend that makes a thread Fast: the process itself, where it may (rt.h, with a budget guard
 * of its own), else tekd (daemon.h). A thread leaves by the backend by which it entered.
 *
 * All functions need the lock (threads/process.h).
 */
#ifndef TEK_MEDIATE_EFFECT_H
#define TEK_MEDIATE_EFFECT_H

#include "threads/thread.h"

#include <sys/types.h>

/*
 * Whether a thread of this process could become Fast now: 0, EPERM or EAGAIN. The lock is given up
 * meanwhile if the guard has to be made (guard.h), and so it is by tek__effect_enter().
 */
int tek__effect_ready(void);

/*
 * Bring a thread before everything fair, with its member's nice as priority, until its reasons
 * end (reasons.h).  Fills base and rt_priority of its member.  Returns 0, or EPERM, EDQUOT, EAGAIN
 * or ESRCH as tek/tek.h has them, or ETIME if its reasons have ended; then nothing changed.
 * A paused thread (region.h) gets base only.
 */
int tek__effect_enter(struct tek_thread *thread);

/*
 * The priority or the end of one that entered may have changed. Returns 0, or ETIME if its reasons
 * have ended: it is to leave.
 */
int tek__effect_move(pid_t tid, struct tek_member *member);

/* Give back what it had. */
void tek__effect_leave(pid_t tid, struct tek_member *member);

/* It has ended, or is about to, and has nothing to be given back. */
void tek__effect_end(pid_t tid, struct tek_member *member);

#endif
