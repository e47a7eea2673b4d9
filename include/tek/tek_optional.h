/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tek/tek_optional.h - what TEK_OPTIONAL adds to tek/tek.h: the program is linked
 * with nothing of ours, uses TEK where it is loaded (`tek run`, LD_PRELOAD) and
 * runs as if it had not asked where it is not.  Both headers can be copied into
 * a source tree.  Include it instead of tek/tek.h, or define TEK_OPTIONAL.
 *
 * Without TEK every tek_ function returns 0 and does nothing (attributes and stacks read as
 * zero, tek_gettid() and its kin ask the kernel), SCHED_TEK is
 * accepted with a priority in -20...19 and has no effect, and the query
 * functions give what the C library gives.
 */
#ifndef TEK_TEK_OPTIONAL_H
#define TEK_TEK_OPTIONAL_H

#if defined(TEK_TEK_H) && !defined(TEK_OPTIONAL)
#error "define TEK_OPTIONAL before the first #include <tek/tek.h>"
#endif
#ifndef TEK_OPTIONAL
#define TEK_OPTIONAL 1
#endif
#include <tek/tek.h>

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Non-zero where libtek is loaded. */
static inline int tek_present(void)
{
	return tek_version != 0;
}

static inline int tek__optional_get_attributes(struct tek_attributes *attributes)
{
	memset(attributes, 0, sizeof(*attributes));
	return 0;
}

static inline int tek__optional_stack_get(struct tek_stack_info *info)
{
	memset(info, 0, sizeof(*info));
	return 0;
}

static inline int tek__optional_priority(const struct sched_param *param)
{
	return param->sched_priority < TEK_PRIORITY_MIN || param->sched_priority > TEK_PRIORITY_MAX
		       ? EINVAL
		       : 0;
}

static inline int tek__optional_setschedparam(pthread_t thread, int policy,
					      const struct sched_param *param)
{
	if (policy == SCHED_TEK && !tek_present())
		return tek__optional_priority(param);
	return pthread_setschedparam(thread, policy, param);
}

static inline int tek__optional_sched_setscheduler(pid_t tid, int policy,
						   const struct sched_param *param)
{
	if (policy == SCHED_TEK && !tek_present()) {
		int error = tek__optional_priority(param);
		if (error)
			errno = error;
		return error ? -1 : 0;
	}
	return sched_setscheduler(tid, policy, param);
}

/* The C library has sched_setattr() since version 2.41. */
#if defined(__GLIBC_PREREQ) && defined(_GNU_SOURCE)
#if __GLIBC_PREREQ(2, 41)
#define TEK_OPTIONAL_ATTR 1
static inline int tek__optional_sched_setattr(pid_t tid, struct sched_attr *attr,
					      unsigned int flags)
{
	if (attr->sched_policy == SCHED_TEK && !tek_present()) {
		const struct sched_param param = {attr->sched_nice};
		int error = tek__optional_priority(&param);
		if (error)
			errno = error;
		return error ? -1 : 0;
	}
	return sched_setattr(tid, attr, flags);
}
#endif
#endif

static inline int tek__optional_attr_setschedpolicy(pthread_attr_t *attr, int policy)
{
	if (policy == SCHED_TEK && !tek_present())
		return 0;
	return pthread_attr_setschedpolicy(attr, policy);
}

/* Without TEK nobody remembers that the policy is SCHED_TEK, so its priorities pass. */
static inline int tek__optional_setschedprio(pthread_t thread, int priority)
{
	const struct sched_param param = {priority};
	int error = pthread_setschedprio(thread, priority);
	return error && !tek_present() ? tek__optional_priority(&param) : error;
}

static inline int tek__optional_sched_setparam(pid_t tid, const struct sched_param *param)
{
	int result = sched_setparam(tid, param);
	return result && !tek_present() && tek__optional_priority(param) == 0 ? 0 : result;
}

/* Without TEK the attribute does not know that it holds SCHED_TEK, so its priorities pass. */
static inline int tek__optional_attr_setschedparam(pthread_attr_t *attr,
						   const struct sched_param *param)
{
	int error = pthread_attr_setschedparam(attr, param);
	if (error && !tek_present())
		return tek__optional_priority(param);
	return error;
}

static inline int tek__optional_get_priority_min(int policy)
{
	return policy == SCHED_TEK ? TEK_PRIORITY_MIN : sched_get_priority_min(policy);
}

static inline int tek__optional_get_priority_max(int policy)
{
	return policy == SCHED_TEK ? TEK_PRIORITY_MAX : sched_get_priority_max(policy);
}

#define pthread_setschedparam tek__optional_setschedparam
#define sched_setscheduler tek__optional_sched_setscheduler
#define pthread_setschedprio tek__optional_setschedprio
#define sched_setparam tek__optional_sched_setparam
#ifdef TEK_OPTIONAL_ATTR
#define sched_setattr tek__optional_sched_setattr
#endif
#define pthread_attr_setschedpolicy tek__optional_attr_setschedpolicy
#define pthread_attr_setschedparam tek__optional_attr_setschedparam
#define sched_get_priority_min tek__optional_get_priority_min
#define sched_get_priority_max tek__optional_get_priority_max

/* Calls of the tek_ functions go through these; taking their address does not. */
#define tek_critical_enter() (tek_present() ? tek_critical_enter() : 0)
#define tek_critical_leave() (tek_present() ? tek_critical_leave() : 0)
#define tek_critical_for(ns) (tek_present() ? tek_critical_for(ns) : 0)
#define tek_thread_mark(thread, marked) (tek_present() ? tek_thread_mark(thread, marked) : 0)
#define tek_thread_set_group(thread, group) \
	(tek_present() ? tek_thread_set_group(thread, group) : 0)
#define tek_thread_get_group(thread, group) \
	(tek_present() ? tek_thread_get_group(thread, group) : (*(group) = TEK_NORMAL, 0))
#define tek_thread_get_attributes(thread, attributes) \
	(tek_present() ? tek_thread_get_attributes(thread, attributes) \
		       : tek__optional_get_attributes(attributes))
#define tek_thread_set_attributes(thread, which, attributes) \
	(tek_present() ? tek_thread_set_attributes(thread, which, attributes) : 0)
#define tek_tid_get_attributes(tid, attributes) \
	(tek_present() ? tek_tid_get_attributes(tid, attributes) \
		       : tek__optional_get_attributes(attributes))
#define tek_tid_set_attributes(tid, which, attributes) \
	(tek_present() ? tek_tid_set_attributes(tid, which, attributes) : 0)
#define tek_attributes_refresh(attributes) (tek_present() ? tek_attributes_refresh(attributes) : 0)
#define pthread_get_attributes(thread, attributes) tek_thread_get_attributes(thread, attributes)
#define pthread_set_attributes(thread, attributes) \
	(tek_present() ? pthread_set_attributes(thread, attributes) : 0)
#define tek_stack_get(thread, info) \
	(tek_present() ? tek_stack_get(thread, info) : tek__optional_stack_get(info))
#define tek_tid_stack_get(tid, info) \
	(tek_present() ? tek_tid_stack_get(tid, info) : tek__optional_stack_get(info))
#define tek_gettid() (tek_present() ? tek_gettid() : (pid_t)syscall(SYS_gettid))
#define tek_self_checked(tid) \
	(tek_present() ? tek_self_checked(tid) : (*(tid) = (pid_t)syscall(SYS_gettid), 0))
#define tek_self_fast() (tek_present() ? tek_self_fast() : (pid_t)syscall(SYS_gettid))
#define tek_follow_marked(on) (tek_present() ? tek_follow_marked(on) : 0)
#define tek_set_budget(cpu_ns, window_ns) (tek_present() ? tek_set_budget(cpu_ns, window_ns) : 0)
#define tek_check() (tek_present() ? tek_check() : 0)
#define tek_version() (tek_present() ? tek_version() : "0.0.0")

#endif
