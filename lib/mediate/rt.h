/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The backend `rt`: the Fast Region by the kernel's real-time class.  A Fast
 * thread runs under SCHED_RR, so before everything fair; the kernel's own
 * real-time throttling keeps a floor for the rest.
 *
 * Saved and restored are policy, real-time priority, reset-on-fork flag and the slice of a fair
 * policy (since Linux 6.12). The nice value needs neither: the kernel keeps it while the thread is
 * real-time, and setpriority(2) changes the kept value. sched_setscheduler(2) back to a fair policy
 * brings it into force again. So a nice value that is set meanwhile, for the thread, its process
 * group or its user, is the thread's on leaving.
 *
 * Functions for other threads need the lock (threads/process.h), which prevents reuse of their
 * tids.
 */
#ifndef TEK_MEDIATE_RT_H
#define TEK_MEDIATE_RT_H

#include "threads/thread.h"

#include <stdbool.h>
#include <sys/types.h>

/* Real-time priorities of SCHED_TEK, and the one of the guard, which must be above them. */
struct tek_rt_range {
	unsigned char low, high, guard;
};

/*
 * The range to use: as configured if the process is privileged, else what
 * RLIMIT_RTPRIO leaves of it; guard is 0 if that is nothing.
 */
struct tek_rt_range tek__rt_range(bool privileged);

/*
 * Find out whether this process may clear a reset-on-fork flag, on a real-time
 * thread of ours, the guard; it keeps one.
 */
void tek__rt_learn_flag(pid_t guard_tid);

/* Choose the range in force. */
void tek__rt_use(struct tek_rt_range range);

/* The real-time priority that a SCHED_TEK priority gets: linear, 19 is low, -20 is high. */
int tek__rt_priority(int nice);

/* Note what a thread has, which is its base from now on. Returns 0 or an errno value. */
int tek__rt_note_base(pid_t tid, struct tek_member *member);

/*
 * Bring a thread before everything fair. Fills member's base and rt_priority. A thread with a
 * real-time priority as high already, or with a deadline, is left as it is. Returns 0 or an errno
 * value; then nothing changed.
 */
int tek__rt_enter(pid_t tid, struct tek_member *member, int nice);

/* Change the priority of one that entered, with the same exception. */
void tek__rt_move(pid_t tid, struct tek_member *member, int nice);

/*
 * Restore the saved values. If other code has changed its policy or priority since, that change
 * stays.
 */
void tek__rt_leave(pid_t tid, struct tek_member *member);

/*
 * tekd may have made the switch that it was asked for, and ended before it answered. Gives the
 * thread its base, which was noted before that.
 */
void tek__rt_undo(pid_t tid, struct tek_member *member);

/*
 * Whether a Fast thread has another policy or priority than TEK gave it: a caller set it without
 * TEK, such as by syscall(2).
 */
bool tek__rt_is_changed(pid_t tid, const struct tek_member *member);

/*
 * Set policy and, with it, the nice value (fair policies) or the real-time priority, both or
 * neither.  Returns 0 or an errno value.
 */
int tek__rt_set(pid_t tid, int policy, bool reset_on_fork, int priority);

/*
 * For a thread, 0 being the calling one, that was born of a Fast one: give it what
 * the child of a thread with `base` and `nice` begins with.  Async-signal-safe.
 */
void tek__rt_inherit(pid_t tid, const struct tek_base *base, int nice);

/* Give it what it inherits from a Fast creator, once, and before anything else is done to it. */
void tek__rt_inherit_once(struct tek_thread *thread);

#endif
