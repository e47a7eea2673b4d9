/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The Fast Region of this process: the threads in it and the reasons.
 *
 * A thread is Fast as long as it has at least one reason (threads/member.h).
 * tek__region_ask() adds one, tek__region_drop() takes one away; entering,
 * leaving, the change of priority and the marked threads that follow are worked
 * out from the reasons.
 *
 * All functions need the lock (threads/process.h) unless noted otherwise.
 */
#ifndef TEK_MEDIATE_REGION_H
#define TEK_MEDIATE_REGION_H

#include "mediate/daemon.h"
#include "threads/thread.h"

/*
 * Enters, leaves or changes priority, so that the thread is what its reasons say. After it has
 * changed them a caller that is no part of the region calls it. An error: nothing changed, and the
 * caller takes its reason back.
 */
int tek__region_settle(struct tek_thread *thread);

/*
 * Add a reason; for POLICY and RULE with a SCHED_TEK priority.  Returns 0, EPERM,
 * EDQUOT, EAGAIN or ESRCH as tek/tek.h has them; on an error nothing changed.
 */
int tek__region_ask(struct tek_thread *thread, unsigned int reason, int nice);

/* Take reasons away. The thread leaves with its last. */
void tek__region_drop(struct tek_thread *thread, unsigned int reasons);

/*
 * The guard found that it used up its budget: out, and no way back for one window,
 * and twice as long after each further time, up to 64 windows.
 */
void tek__region_expel(struct tek_thread *thread, uint64_t used_ns);

/*
 * Called before any report about a thread. Puts out the threads that tekd took back, and readmits
 * threads that a rule names and that are due: where tekd makes the switches there is no budget
 * guard to do so. No system call where it does not.
 */
void tek__region_receive(void);

/* The same for callers without the lock. */
void tek__region_receive_locked(void);

static inline void tek__region_keep_up(void)
{
	if (tek__daemon_is_in_play())
		tek__region_receive_locked();
}

/* The budget of the process has changed: notifies tekd, which enforces it. */
void tek__region_budget_changed(void);

/*
 * Readmits the threads that a rule names and that are due (CLOCK_MONOTONIC). Returns the time of
 * the next one, UINT64_MAX if none waits.
 */
uint64_t tek__region_readmit(uint64_t now);

/* It has ended: out of the lists without a system call for it. */
void tek__region_remove(struct tek_thread *thread);

/*
 * Between pause and resume a thread has its scheduling without TEK, Fast or not: other code is
 * about to set its policy, or it starts a process, which inherits. Changes meanwhile take effect at
 * resume, which takes the thread's scheduling at that time as its new base. pause returns whether
 * resume must follow.
 */
bool tek__region_pause(struct tek_thread *thread);
void tek__region_resume(struct tek_thread *thread);

/*
 * As tek__region_pause(), without a system call, for a thread that makes a child: one that is not
 * Fast becomes so after that, so that the child inherits the base. False: it is Fast, and what the
 * child inherits is taken from the child.
 */
bool tek__region_hold(struct tek_thread *thread);

void tek__region_mark(struct tek_thread *thread, bool marked);
void tek__region_set_group(struct tek_thread *thread, unsigned int group);
void tek__region_follow_marked(bool on);

/* Whether any thread is marked, so that groups matter. */
bool tek__region_has_marks(void);

/* The first member; the next is member.region_next. NULL: normal mode. */
struct tek_thread *tek__region_first(void);

/*
 * A rule says that it is Fast: the one of that number, 0 for TEK_CRITICAL.  Or none says
 * so any more.
 */
void tek__region_follow_rule(struct tek_thread *thread, unsigned int rule, int nice);
void tek__region_follow_no_rule(struct tek_thread *thread);

/* Removes all members: each gets back what it has without TEK. */
void tek__region_end(void);

/* The process ends: note a summary of every thread that was ever Fast. */
void tek__region_summarise(void);

/* In the child of a fork. Needs no lock. */
void tek__region_forget(void);

#endif
