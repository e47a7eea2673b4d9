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
#include "threads/lookup.h"

#include <sched.h>

enum { TEK_NOT_OURS = -1 };

/*
 * Set policy and priority of a thread, SCHED_TEK or any other; the priority of a fair
 * policy is its nice value.  Returns 0 or an error number; then nothing changed.  Needs
 * the lock.
 */
int tek__policy_give(struct tek_thread *thread, int policy, int priority);

/*
 * Makes the call in the C library; `policy` may have SCHED_RESET_ON_FORK where the call has not.
 * Returns 0 or an error number.
 */
typedef int tek_policy_call(struct tek_target target, int policy, const struct sched_param *param);

/*
 * Set policy and priority.  `real` makes the same call; it is made only for a policy that is not
 * SCHED_TEK.
 */
int tek__policy_set(struct tek_target target, int policy, const struct sched_param *param,
		    tek_policy_call *real);

/* Set the priority. `real` sets both, for a Fast thread; `real_priority` leaves the policy. */
int tek__policy_set_priority(struct tek_target target, int priority, tek_policy_call *real,
			     tek_policy_call *real_priority);

/* The same for a sched_setattr(2) that sets policy or parameters; `real` uses target.attr. */
int tek__policy_set_attr(struct tek_target target, const struct tek_sched_attr *attr,
			 tek_policy_call *real);

/* Get policy and priority. *policy may have SCHED_RESET_ON_FORK set. */
int tek__policy_get(struct tek_target target, int *policy, struct sched_param *param);

/* A policy that the kernel returned, without a lent reset-on-fork flag. */
int tek__policy_reported(struct tek_target target, int policy);

#endif
