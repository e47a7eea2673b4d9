/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sched_setattr() and sched_getattr(), which know SCHED_TEK here; its priority is the nice value.
 * The C library has them since version 2.41.  Before that a program that finds ours gets the
 * system call.
 */
#include "base/sched_attr.h"
#include "base/export.h"
#include "base/real.h"
#include "life/start.h"
#include "mediate/policy.h"
#include "mediate/rt.h"
#include "place/affinity.h"
#include "threads/process.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <tek/tek.h>
#include <unistd.h>

struct sched_attr; /* the kernel's; in <sched.h> of newer C libraries */

int sched_setattr(pid_t tid, struct sched_attr *attr, unsigned int flags);
int sched_getattr(pid_t tid, struct sched_attr *attr, unsigned int size, unsigned int flags);

static int real_set(pid_t tid, struct sched_attr *attr, unsigned int flags)
{
	if (tek__real.sched_setattr)
		return tek__real.sched_setattr(tid, attr, flags);
	return (int)syscall(SYS_sched_setattr, tid, attr, flags);
}

static int real_get(pid_t tid, struct sched_attr *attr, unsigned int size, unsigned int flags)
{
	if (tek__real.sched_getattr)
		return tek__real.sched_getattr(tid, attr, size, flags);
	return (int)syscall(SYS_sched_getattr, tid, attr, size, flags);
}

static int real_set_target(struct tek_target target, int policy, const struct sched_param *param)
{
	struct {
		struct tek_sched_attr attr;
		unsigned char newer[64];
	} copy;
	uint32_t size;

	(void)param; /* which *attr has, as well as the policy */
	memcpy(&size, target.attr, sizeof(size));
	if (!(policy & SCHED_RESET_ON_FORK) || size > sizeof(copy))
		return real_set(target.tid, target.attr, 0) ? errno : 0;
	memcpy(&copy, target.attr, size ? size : sizeof(copy.attr));
	copy.attr.flags |= TEK_ATTR_RESET_ON_FORK;
	return real_set(target.tid, (struct sched_attr *)&copy, 0) ? errno : 0;
}

/* Copies the program's argument. False: the kernel will refuse it. */
static bool read_attr(const void *given, struct tek_sched_attr *attr)
{
	/*
	 * The headers declare it as nonnull, so the compiler would drop the comparison with NULL;
	 * the kernel fails with EINVAL.
	 */
	__asm__("" : "+r"(given));
	if (!given)
		return false;
	memcpy(&attr->size, given, sizeof(attr->size));
	if (attr->size && attr->size < sizeof(*attr))
		return false;
	memcpy(attr, given, sizeof(*attr));
	return true;
}

TEK_EXPORT int sched_setattr(pid_t tid, struct sched_attr *attr, unsigned int flags)
{
	const uint64_t keep = TEK_ATTR_KEEP_POLICY | TEK_ATTR_KEEP_PARAMS;
	struct tek_target target = tek__by_tid(tid);
	struct tek_sched_attr asked;

	/* A call that keeps both sets something else, the utilization clamps. */
	if (!tek__start() || flags || !read_attr(attr, &asked) || (asked.flags & keep) == keep)
		return real_set(tid, attr, flags);
	target.attr = attr;
	int error = tek__policy_set_attr(target, &asked, real_set_target);
	if (error == TEK_NOT_OURS)
		return real_set(tid, attr, flags);
	if (error)
		errno = error;
	return error ? -1 : 0;
}

/* The attributes of a Fast thread as its program set them. */
static void fill(struct tek_target target, struct tek_sched_attr *attr, int policy, int priority)
{
	const bool flag = policy & SCHED_RESET_ON_FORK;

	attr->policy = (uint32_t)(policy & ~SCHED_RESET_ON_FORK);
	attr->flags &= ~(uint64_t)TEK_ATTR_RESET_ON_FORK;
	attr->flags |= flag ? TEK_ATTR_RESET_ON_FORK : 0;
	attr->nice = 0;
	attr->priority = 0;
	if (attr->policy == SCHED_TEK)
		attr->nice = priority;
	else if (tek__is_real_time((int)attr->policy))
		attr->priority = (uint32_t)priority;
	else
		attr->nice = tek__scheduling_nice(target.tid);
}

TEK_EXPORT int sched_getattr(pid_t tid, struct sched_attr *attr, unsigned int size,
			     unsigned int flags)
{
	const struct tek_target target = tek__by_tid(tid);
	struct tek_sched_attr known;
	struct sched_param param;
	int policy;

	const bool started = tek__start();
	int result = real_get(tid, attr, size, flags);
	if (result || !started || size < sizeof(known))
		return result;
	memcpy(&known, attr, sizeof(known));
	if (tek__policy_get(target, &policy, &param) == 0) {
		fill(target, &known, policy, param.sched_priority);
	} else if (known.flags & TEK_ATTR_RESET_ON_FORK) {
		policy = (int)known.policy | SCHED_RESET_ON_FORK;
		if (tek__place_policy_reported(target, tek__policy_reported(target, policy)) !=
		    policy)
			known.flags &= ~(uint64_t)TEK_ATTR_RESET_ON_FORK;
	}
	memcpy(attr, &known, sizeof(known));
	return 0;
}
