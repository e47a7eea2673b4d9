/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The scheduling calls of pthread.h and sched.h, which know SCHED_TEK here. */
#include "base/export.h"
#include "base/real.h"
#include "life/start.h"
#include "mediate/attr.h"
#include "mediate/policy.h"
#include "place/affinity.h"
#include "threads/process.h"

#include <errno.h>
#include <tek/tek.h>

/* For functions that return -1 and set errno. */
static int with_errno(int error)
{
	if (error)
		errno = error;
	return error ? -1 : 0;
}

static int real_set_by_handle(struct tek_target target, int policy, const struct sched_param *param)
{
	return tek__real.pthread_setschedparam(target.handle, policy, param);
}

static int real_set_by_tid(struct tek_target target, int policy, const struct sched_param *param)
{
	return tek__real.sched_setscheduler(target.tid, policy, param) ? errno : 0;
}

static int real_priority_by_handle(struct tek_target target, int policy,
				   const struct sched_param *param)
{
	(void)policy;
	return tek__real.pthread_setschedprio(target.handle, param->sched_priority);
}

static int real_priority_by_tid(struct tek_target target, int policy,
				const struct sched_param *param)
{
	(void)policy;
	return tek__real.sched_setparam(target.tid, param) ? errno : 0;
}

TEK_EXPORT int pthread_setschedparam(pthread_t handle, int policy, const struct sched_param *param)
{
	tek__start();
	int error = tek__policy_set(tek__by_handle(handle), policy, param, real_set_by_handle);
	return error == TEK_NOT_OURS ? tek__real.pthread_setschedparam(handle, policy, param)
				     : error;
}

/* A policy of the kernel, without the flags that TEK has set. */
static int reported(struct tek_target target, int policy)
{
	if (policy < 0)
		return policy;
	return tek__place_policy_reported(target, tek__policy_reported(target, policy));
}

TEK_EXPORT int pthread_getschedparam(pthread_t handle, int *policy, struct sched_param *param)
{
	tek__start();
	int error = tek__policy_get(tek__by_handle(handle), policy, param);
	if (error == TEK_NOT_OURS) {
		error = tek__real.pthread_getschedparam(handle, policy, param);
		if (!error)
			*policy = reported(tek__by_handle(handle), *policy);
		return error;
	}
	*policy &= ~SCHED_RESET_ON_FORK; /* pthread.h does not know the flag */
	return error;
}

TEK_EXPORT int pthread_setschedprio(pthread_t handle, int priority)
{
	tek__start();
	int error = tek__policy_set_priority(tek__by_handle(handle), priority, real_set_by_handle,
					     real_priority_by_handle);
	return error == TEK_NOT_OURS ? tek__real.pthread_setschedprio(handle, priority) : error;
}

TEK_EXPORT int sched_setscheduler(pid_t tid, int policy, const struct sched_param *param)
{
	tek__start();
	if (!param)
		return with_errno(EINVAL);
	int error = tek__policy_set(tek__by_tid(tid), policy, param, real_set_by_tid);
	return error == TEK_NOT_OURS ? tek__real.sched_setscheduler(tid, policy, param)
				     : with_errno(error);
}

TEK_EXPORT int sched_getscheduler(pid_t tid)
{
	struct sched_param param;
	int policy;

	tek__start();
	int error = tek__policy_get(tek__by_tid(tid), &policy, &param);
	if (error != TEK_NOT_OURS)
		return policy;
	return reported(tek__by_tid(tid), tek__real.sched_getscheduler(tid));
}

TEK_EXPORT int sched_setparam(pid_t tid, const struct sched_param *param)
{
	tek__start();
	if (!param)
		return with_errno(EINVAL);
	int error = tek__policy_set_priority(tek__by_tid(tid), param->sched_priority,
					     real_set_by_tid, real_priority_by_tid);
	return error == TEK_NOT_OURS ? tek__real.sched_setparam(tid, param) : with_errno(error);
}

TEK_EXPORT int sched_getparam(pid_t tid, struct sched_param *param)
{
	int policy;

	tek__start();
	if (!param)
		return with_errno(EINVAL);
	int error = tek__policy_get(tek__by_tid(tid), &policy, param);
	return error == TEK_NOT_OURS ? tek__real.sched_getparam(tid, param) : 0;
}

TEK_EXPORT int sched_get_priority_min(int policy)
{
	tek__start();
	return policy == SCHED_TEK ? TEK_PRIORITY_MIN : tek__real.sched_get_priority_min(policy);
}

TEK_EXPORT int sched_get_priority_max(int policy)
{
	tek__start();
	return policy == SCHED_TEK ? TEK_PRIORITY_MAX : tek__real.sched_get_priority_max(policy);
}

TEK_EXPORT int pthread_attr_setschedpolicy(pthread_attr_t *attr, int policy)
{
	tek__start();
	if (policy == SCHED_TEK)
		return tek__attr_set_policy(attr);

	bool had_ours = tek__attr_has_policy(attr);
	int error = tek__real.pthread_attr_setschedpolicy(attr, policy);
	if (!error && had_ours)
		tek__attr_clear_priority(attr);
	return error;
}

TEK_EXPORT int pthread_attr_setschedparam(pthread_attr_t *attr, const struct sched_param *param)
{
	tek__start();
	if (tek__attr_has_policy(attr))
		return tek__attr_set_priority(attr, param->sched_priority);
	return tek__real.pthread_attr_setschedparam(attr, param);
}
