/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/policy.h"

#include "mediate/region.h"
#include "mediate/rt.h"
#include "threads/process.h"
#include "threads/record.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <tek/tek.h>
#include <unistd.h>

/* The priorities of SCHED_TEK are nice values. */
static bool is_nice(int priority)
{
	return priority >= TEK_PRIORITY_MIN && priority <= TEK_PRIORITY_MAX;
}

static int set_tek(struct tek_target target, int priority)
{
	if (!is_nice(priority))
		return EINVAL;
	if (!tek__lock())
		return EAGAIN;
	struct tek_thread *thread = tek__lookup(target);
	int error = thread ? tek__region_ask(thread, TEK_WHY_POLICY, priority)
			   : tek__lookup_error(target);
	tek__unlock();
	return error;
}

/* Nice value or real-time priority, as the policy has it; of a fair policy nice stays. */
static void saw(struct tek_thread *thread, int policy, int priority)
{
	struct tek_seen *seen = &thread->seen;

	seen->policy = (unsigned char)(policy & ~SCHED_RESET_ON_FORK);
	seen->reset_on_fork = policy & SCHED_RESET_ON_FORK;
	seen->rt_priority = (unsigned char)priority;
	tek__thread_publish(thread);
}

static void saw_priority(struct tek_thread *thread, int priority)
{
	thread->seen.rt_priority = (unsigned char)priority;
	tek__thread_publish(thread);
}

/*
 * Whether the thread has a reset-on-fork flag that the program did not set. A thread that tekd
 * lifts by itself has that of tekd.
 */
static bool has_lent_flag(const struct tek_thread *thread)
{
	struct tek_sched_attr attr;

	return thread && thread->tid && !thread->seen.reset_on_fork &&
	       !tek__scheduling_get(thread->tid, &attr) && attr.flags & TEK_ATTR_RESET_ON_FORK;
}

/*
 * Makes the call. A process without privilege may not clear a lent flag, so the kernel refuses each
 * policy without it. The thread keeps the flag then, and tekd takes it away at the end of the lift.
 */
static int set_under_lift(struct tek_thread *thread, struct tek_target target, int policy,
			  const struct sched_param *param, tek_policy_call *real)
{
	int error = real(target, policy, param);

	if (error != EPERM || policy & SCHED_RESET_ON_FORK || !has_lent_flag(thread))
		return error;
	return real(target, policy | SCHED_RESET_ON_FORK, param);
}

/*
 * Another policy for a Fast thread: the kernel is asked first, with the thread as
 * it was before, so that it judges the request as it would without TEK.
 */
static int set_other(struct tek_thread *thread, struct tek_target target, int policy,
		     const struct sched_param *param, tek_policy_call *real)
{
	bool paused = tek__region_pause(thread);
	int error = set_under_lift(thread, target, policy, param, real);
	if (paused)
		tek__region_resume(thread);
	if (!error)
		tek__region_drop(thread, TEK_WHY_POLICY);
	return error;
}

/* As the functions behind `real`, but with the nice value as the priority of a fair policy. */
static int give(struct tek_target target, int policy, const struct sched_param *param)
{
	return tek__rt_set(target.tid, policy & ~SCHED_RESET_ON_FORK, policy & SCHED_RESET_ON_FORK,
			   param->sched_priority);
}

int tek__policy_give(struct tek_thread *thread, int policy, int priority)
{
	const struct sched_param param = {.sched_priority = priority};
	const struct tek_target target = {.by_tid = true, .tid = thread->tid};
	bool real_time = tek__is_real_time(policy);

	if (policy == SCHED_TEK)
		return is_nice(priority) ? tek__region_ask(thread, TEK_WHY_POLICY, priority)
					 : EINVAL;
	if (!thread->tid)
		return ESRCH; /* not known yet; and 0 would mean the caller to the kernel */
	if (!real_time && !is_nice(priority))
		return EINVAL; /* the kernel would take the nearest one */
	int error = set_other(thread, target, policy, &param, give);
	if (!error && !real_time)
		thread->seen.nice = (signed char)priority;
	if (!error)
		saw(thread, policy, real_time ? priority : 0);
	return error;
}

/* The thread if it is in the Fast Region, so that the call concerns TEK. */
static struct tek_thread *find_fast(struct tek_target target)
{
	tek__region_receive();
	/* In normal mode no thread is looked up, and none adopted. */
	if (!tek__region_first())
		return NULL;
	struct tek_thread *thread = tek__lookup(target);
	return thread && thread->member.fast ? thread : NULL;
}

/*
 * Whether the thread may become Fast, by a lift or by another thread, while its policy is set. Then
 * the policy is set under the lock: the values that are restored are those of before or after.
 */
static bool may_become_fast(struct tek_target target)
{
	return tek__region_first() || tek__lookup_known(target);
}

int tek__policy_set(struct tek_target target, int policy, const struct sched_param *param,
		    tek_policy_call *real)
{
	int error = TEK_NOT_OURS;

	if ((policy & ~SCHED_RESET_ON_FORK) == SCHED_TEK)
		return set_tek(target, param->sched_priority);
	if (!tek__lock())
		return TEK_NOT_OURS;
	struct tek_thread *thread = find_fast(target);
	if (thread)
		error = set_other(thread, target, policy, param, real);
	else if (may_become_fast(target))
		error = set_under_lift(tek__lookup_known(target), target, policy, param, real);
	thread = error ? NULL : tek__lookup_known(target);
	if (thread)
		saw(thread, policy, param->sched_priority);
	tek__unlock();
	return error;
}

static int base_policy(const struct tek_member *member)
{
	return member->base.policy | (member->base.reset_on_fork ? SCHED_RESET_ON_FORK : 0);
}

/*
 * Asks the kernel for the policy of a thread, which may have a lent flag. Of a Fast thread it notes
 * the restored values.
 */
static void check_again(struct tek_thread *thread, bool is_lent_flag)
{
	struct tek_seen seen;

	if (!thread->tid || tek__scheduling_query(thread->tid, &seen))
		return;
	if (thread->member.fast) {
		const struct tek_base *base = &thread->member.base;
		seen.policy = base->policy;
		seen.rt_priority = base->priority;
		seen.reset_on_fork = base->reset_on_fork;
		seen.nice = (signed char)tek__scheduling_nice(thread->tid);
	} else if (is_lent_flag) {
		seen.reset_on_fork = false;
	}
	thread->seen = seen;
	tek__thread_publish(thread);
}

int tek__policy_set_attr(struct tek_target target, const struct tek_sched_attr *attr,
			 tek_policy_call *real)
{
	const bool keeps = attr->flags & TEK_ATTR_KEEP_POLICY;
	int error = TEK_NOT_OURS;

	if (!keeps && attr->policy == SCHED_TEK) {
		const bool only_nice = !attr->priority && !(attr->flags & ~TEK_ATTR_RESET_ON_FORK);
		return only_nice ? set_tek(target, attr->nice) : EINVAL;
	}
	if (!tek__lock())
		return TEK_NOT_OURS;
	struct tek_thread *thread = find_fast(target);
	const bool is_lent_flag = !(attr->flags & TEK_ATTR_RESET_ON_FORK) &&
				  has_lent_flag(tek__lookup_known(target));
	const bool is_tek = thread && keeps && thread->member.reasons & TEK_WHY_POLICY;
	if (is_tek)
		error = is_nice(attr->nice) ? tek__region_ask(thread, TEK_WHY_POLICY, attr->nice)
					    : EINVAL;
	else if (thread)
		error = set_other(thread, target, (int)attr->policy, NULL, real);
	else if (may_become_fast(target))
		error = set_under_lift(tek__lookup_known(target), target, (int)attr->policy, NULL,
				       real);
	thread = error || is_tek ? NULL : tek__lookup_known(target);
	if (thread)
		check_again(thread, is_lent_flag);
	tek__unlock();
	return error;
}

int tek__policy_set_priority(struct tek_target target, int priority, tek_policy_call *real,
			     tek_policy_call *real_priority)
{
	const struct sched_param param = {.sched_priority = priority};
	int error = TEK_NOT_OURS;

	if (!tek__lock())
		return TEK_NOT_OURS;
	struct tek_thread *thread = find_fast(target);
	const bool is_tek = thread && thread->member.reasons & TEK_WHY_POLICY;
	if (is_tek)
		error = is_nice(priority) ? tek__region_ask(thread, TEK_WHY_POLICY, priority)
					  : EINVAL;
	else if (thread)
		error = set_other(thread, target, base_policy(&thread->member), &param, real);
	else if (may_become_fast(target))
		error = real_priority(target, 0, &param);
	thread = error || is_tek ? NULL : tek__lookup_known(target);
	if (thread)
		saw_priority(thread, priority);
	tek__unlock();
	return error;
}

/* Whether the policy of a Fast thread is still the one that TEK knows. */
static bool has_what_we_know(const struct tek_thread *thread)
{
	int saved = errno;
	bool changed = !thread->member.paused && tek__rt_is_changed(thread->tid, &thread->member);
	errno = saved;
	return !changed;
}

int tek__policy_get(struct tek_target target, int *policy, struct sched_param *param)
{
	int error = TEK_NOT_OURS;

	if (!tek__lock())
		return TEK_NOT_OURS;
	struct tek_thread *thread = find_fast(target);
	if (thread && has_what_we_know(thread)) {
		const struct tek_member *member = &thread->member;
		bool own = member->reasons & TEK_WHY_PROGRAM;
		*policy = own ? SCHED_TEK : base_policy(member);
		param->sched_priority = own ? member->nice : member->base.priority;
		error = 0;
	}
	tek__unlock();
	return error;
}

int tek__policy_reported(struct tek_target target, int policy)
{
	if (!(policy & SCHED_RESET_ON_FORK) || !tek__lock())
		return policy;
	const struct tek_thread *thread = tek__lookup_known(target);
	if (thread && !thread->seen.reset_on_fork &&
	    thread->seen.policy == (policy & ~SCHED_RESET_ON_FORK))
		policy &= ~SCHED_RESET_ON_FORK;
	tek__unlock();
	return policy;
}
