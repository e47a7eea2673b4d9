/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/policy.h"

#include "ident/process.h"
#include "mediate/region.h"

#include <errno.h>
#include <signal.h>
#include <tek/tek.h>

static struct tek_thread *find(struct tek_target target)
{
	return target.by_tid ? tek__thread_find_tid(target.tid) : tek__thread_find(target.handle);
}

/* Why there is no such thread in this process. */
static int why_not_found(struct tek_target target)
{
	if (target.by_tid && target.tid < 0)
		return EINVAL;
	/* A thread of another process: only tekd could move it. */
	return target.by_tid && target.tid && kill(target.tid, 0) == 0 ? EPERM : ESRCH;
}

static int set_tek(struct tek_target target, int priority)
{
	if (priority < TEK_PRIORITY_MIN || priority > TEK_PRIORITY_MAX)
		return EINVAL;
	if (!tek__lock())
		return EAGAIN;
	struct tek_thread *thread = find(target);
	int error = thread ? tek__region_ask(thread, TEK_WHY_POLICY, priority)
			   : why_not_found(target);
	tek__unlock();
	return error;
}

/*
 * Another policy for a Fast thread: the kernel is asked first, with the thread as
 * it was before, so that it judges the request as it would without TEK.
 */
static int set_other(struct tek_thread *thread, struct tek_target target, int policy,
		     const struct sched_param *param,
		     int (*real)(struct tek_target, int, const struct sched_param *))
{
	bool paused = tek__region_pause(thread);
	int error = real(target, policy, param);
	if (paused)
		tek__region_resume(thread);
	if (!error)
		tek__region_drop(thread, TEK_WHY_POLICY);
	return error;
}

/* The thread if it is in the Fast Region, so that the call concerns TEK. */
static struct tek_thread *find_fast(struct tek_target target)
{
	/* In normal mode no thread is looked up, and none adopted. */
	if (!tek__region_first())
		return NULL;
	struct tek_thread *thread = find(target);
	return thread && thread->member.fast ? thread : NULL;
}

int tek__policy_set(struct tek_target target, int policy, const struct sched_param *param,
		    int (*real)(struct tek_target, int, const struct sched_param *))
{
	int error = TEK_NOT_OURS;

	if ((policy & ~SCHED_RESET_ON_FORK) == SCHED_TEK)
		return set_tek(target, param->sched_priority);
	if (!tek__lock())
		return TEK_NOT_OURS;
	struct tek_thread *thread = find_fast(target);
	if (thread)
		error = set_other(thread, target, policy, param, real);
	tek__unlock();
	return error;
}

static int base_policy(const struct tek_member *member)
{
	return member->base.policy | (member->base.reset_on_fork ? SCHED_RESET_ON_FORK : 0);
}

int tek__policy_set_priority(struct tek_target target, int priority,
			     int (*real)(struct tek_target, int, const struct sched_param *))
{
	const struct sched_param param = {.sched_priority = priority};
	int error = TEK_NOT_OURS;

	if (!tek__lock())
		return TEK_NOT_OURS;
	struct tek_thread *thread = find_fast(target);
	if (thread && thread->member.reasons & TEK_WHY_POLICY)
		error = priority < TEK_PRIORITY_MIN || priority > TEK_PRIORITY_MAX
				? EINVAL
				: tek__region_ask(thread, TEK_WHY_POLICY, priority);
	else if (thread)
		error = set_other(thread, target, base_policy(&thread->member), &param, real);
	tek__unlock();
	return error;
}

int tek__policy_get(struct tek_target target, int *policy, struct sched_param *param)
{
	int error = TEK_NOT_OURS;

	if (!tek__lock())
		return TEK_NOT_OURS;
	struct tek_thread *thread = find_fast(target);
	if (thread) {
		const struct tek_member *member = &thread->member;
		bool own = member->reasons & TEK_WHY_PROGRAM;
		*policy = own ? SCHED_TEK : base_policy(member);
		param->sched_priority = own ? member->nice : member->base.priority;
		error = 0;
	}
	tek__unlock();
	return error;
}
