/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * SCHED_TEK as a scheduling policy: what the interposed calls of pthread.h and
 * sched.h mean for a thread (tek/tek.h has the description for users).
 *
 * A thread that is Fast for a reason of the program's own reads SCHED_TEK back.
 * One that is Fast only because a rule names it belongs to a program that knows
 * nothing of TEK: it reads and sets what it would without TEK, and what it sets
 * becomes what is restored.
 *
 * These functions take the lock themselves.  They return an error number, or
 * TEK_NOT_OURS: the call has nothing to do with TEK, let the C library do it.
 */
#ifndef TEK_MEDIATE_POLICY_H
#define TEK_MEDIATE_POLICY_H

#include "base/sched_attr.h"
#include "threads/thread.h"

#include <sched.h>

struct sched_attr; /* the kernel's */

enum { TEK_NOT_OURS = -1 };

/* The target thread of a call. */
struct tek_target {
	bool by_tid;
	pthread_t handle;
	pid_t tid; /* 0: the calling thread */
	struct sched_attr
		*attr; /* the argument of sched_setattr(2), which takes a tid; else NULL */
};

static inline struct tek_target tek__by_handle(pthread_t handle)
{
	return (struct tek_target){.handle = handle};
}

static inline struct tek_target tek__by_tid(pid_t tid)
{
	return (struct tek_target){.by_tid = true, .tid = tid};
}

/* The thread, found or adopted; NULL if there is none in this process. Needs the lock. */
struct tek_thread *tek__policy_find(struct tek_target target);

/* The same without adopting, and without asking the kernel whether it still exists. */
struct tek_thread *tek__policy_find_known(struct tek_target target);

/*
 * Why there is none: EINVAL, EAGAIN (it is of this process but has no slot, or is past its
 * end), EPERM (it is of another process) or ESRCH.  Needs no lock.
 */
int tek__policy_why_not_found(struct tek_target target);

/*
 * Set policy and priority of a thread, SCHED_TEK or any other; the priority of a fair
 * policy is its nice value.  Returns 0 or an error number; then nothing changed.  Needs
 * the lock.
 */
int tek__policy_give(struct tek_thread *thread, int policy, int priority);

/*
 * The program set policy or priority through the C library, or by sched_setattr(2). These
 * functions take the lock.
 */
void tek__policy_saw(struct tek_target target, int policy, int priority);
void tek__policy_saw_priority(struct tek_target target, int priority);
void tek__policy_saw_attr(struct tek_target target);

/*
 * Set policy and priority.  `real` makes the same call in the C library; it is
 * called only for a policy that is not SCHED_TEK.
 */
int tek__policy_set(struct tek_target target, int policy, const struct sched_param *param,
		    int (*real)(struct tek_target, int, const struct sched_param *));

/* Set the priority and leave the policy. `real` sets both, as above. */
int tek__policy_set_priority(struct tek_target target, int priority,
			     int (*real)(struct tek_target, int, const struct sched_param *));

/* The same for a sched_setattr(2) that sets policy or parameters; `real` uses target.attr. */
int tek__policy_set_attr(struct tek_target target, const struct tek_sched_attr *attr,
			 int (*real)(struct tek_target, int, const struct sched_param *));

/* Get policy and priority. *policy may have SCHED_RESET_ON_FORK set. */
int tek__policy_get(struct tek_target target, int *policy, struct sched_param *param);

#endif
