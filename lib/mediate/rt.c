/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/rt.h"

#include "base/sched_attr.h"
#include "mediate/config.h"
#include "threads/scheduling.h"

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <tek/tek.h>
#include <unistd.h>

#ifndef SCHED_DEADLINE
#define SCHED_DEADLINE 6
#endif

static struct tek_rt_range in_force = {.low = 10, .high = 49, .guard = 50};

/*
 * With this flag the kernel itself keeps children of every kind from being born
 * Fast.  Clearing it needs CAP_SYS_NICE, so it is used only where that is there;
 * elsewhere pthread_create, fork and posix_spawn see to it (exec/, life/create.c).
 */
static bool may_clear_flag;

/*
 * The raw calls: the C library's sched_setscheduler() is one of our own symbols,
 * and that of musl refuses all.
 */
static int set(pid_t tid, int policy, bool reset_on_fork, int priority)
{
	struct sched_param param = {.sched_priority = priority};
	if (reset_on_fork)
		policy |= SCHED_RESET_ON_FORK;
	return syscall(SYS_sched_setscheduler, tid, policy, &param) ? errno : 0;
}

static bool has_slice(unsigned int policy)
{
	return policy == SCHED_OTHER || policy == SCHED_BATCH;
}

/*
 * The kernel's usual slice, which every thread has that was not given one of its own.  It depends
 * on the number of CPUs in use, so it is asked for again whenever a thread seems to have had
 * another one.
 */
static _Atomic uint64_t usual_slice_ns;

/*
 * Give a thread, which has just got its policy and with that the usual slice, the slice that it
 * had. It is not set where it is the usual one: that would bind the thread to it.
 */
static void set_slice(pid_t tid, uint64_t slice_ns)
{
	struct tek_sched_attr attr;

	if (!slice_ns || slice_ns == usual_slice_ns || tek__scheduling_get(tid, &attr) ||
	    !has_slice(attr.policy))
		return;
	usual_slice_ns = attr.runtime;
	if (slice_ns == attr.runtime)
		return;
	attr.size = sizeof(attr);
	attr.runtime = slice_ns;
	syscall(SYS_sched_setattr, tid, &attr, 0);
}

void tek__rt_learn_flag(pid_t guard_tid)
{
	may_clear_flag = set(guard_tid, SCHED_FIFO, true, in_force.guard) == 0 &&
			 set(guard_tid, SCHED_FIFO, false, in_force.guard) == 0;
	/* With the flag tekd takes it for what it is: not for another real-time thread. */
	set(guard_tid, SCHED_FIFO, true, in_force.guard);
}

struct tek_rt_range tek__rt_range(bool privileged)
{
	struct rlimit limit;
	struct tek_rt_range range = {
		.low = tek__config.rt_low,
		.high = tek__config.rt_high,
		.guard = (unsigned char)(tek__config.rt_high + 1),
	};

	if (privileged || getrlimit(RLIMIT_RTPRIO, &limit) || limit.rlim_cur >= range.guard)
		return range;
	range.guard = (unsigned char)limit.rlim_cur;
	range.high = (unsigned char)(range.guard > 1 ? range.guard - 1 : range.guard);
	if (range.low > range.high)
		range.low = range.high;
	return range;
}

void tek__rt_use(struct tek_rt_range range)
{
	in_force = range;
}

int tek__rt_priority(int nice)
{
	int steps = TEK_PRIORITY_MAX - TEK_PRIORITY_MIN;
	return in_force.low + (TEK_PRIORITY_MAX - nice) * (in_force.high - in_force.low) / steps;
}

/* Whether the thread still has what we gave it. */
static bool is_ours(pid_t tid, const struct tek_member *member)
{
	return member->rt_priority && !tek__rt_is_changed(tid, member);
}

static void give_back(pid_t tid, struct tek_member *member)
{
	const struct tek_base *base = &member->base;

	if (is_ours(tid, member)) {
		/*
		 * The process may have given up its privilege while the thread was Fast.  Giving up
		 * the real-time class is always allowed, the flag is not ours to clear.
		 */
		if (set(tid, base->policy, base->reset_on_fork, base->priority))
			set(tid, tek__is_real_time(base->policy) ? SCHED_OTHER : base->policy, true,
			    0);
		set_slice(tid, base->slice_ns);
	}
	member->rt_priority = 0;
}

static int apply(pid_t tid, struct tek_member *member, int priority)
{
	const struct tek_base *base = &member->base;

	if (base->policy == SCHED_DEADLINE ||
	    (tek__is_real_time(base->policy) && base->priority >= priority)) {
		give_back(tid, member);
		return 0;
	}
	member->rt_reset_on_fork = may_clear_flag || base->reset_on_fork;
	int error = set(tid, SCHED_RR, member->rt_reset_on_fork, priority);
	if (!error)
		member->rt_priority = (unsigned char)priority;
	return error;
}

int tek__rt_note_base(pid_t tid, struct tek_member *member)
{
	struct tek_sched_attr attr;
	int error = tek__scheduling_get(tid, &attr);
	if (error)
		return error;

	member->base.policy = (unsigned char)attr.policy;
	member->base.priority = (unsigned char)attr.priority;
	member->base.reset_on_fork = attr.flags & TEK_ATTR_RESET_ON_FORK;
	member->base.slice_ns = has_slice(attr.policy) ? attr.runtime : 0;
	member->rt_priority = member->later_rt_priority = 0;
	return 0;
}

bool tek__rt_is_changed(pid_t tid, const struct tek_member *member)
{
	struct tek_sched_attr attr;

	if (tek__scheduling_get(tid, &attr))
		return false;
	if (!member->rt_priority)
		return attr.policy != member->base.policy || attr.priority != member->base.priority;
	return attr.policy != SCHED_RR ||
	       (attr.priority != member->rt_priority &&
		(!member->later_rt_priority || attr.priority != member->later_rt_priority));
}

int tek__rt_enter(pid_t tid, struct tek_member *member, int nice)
{
	int error = tek__rt_note_base(tid, member);
	return error ? error : apply(tid, member, tek__rt_priority(nice));
}

void tek__rt_move(pid_t tid, struct tek_member *member, int nice)
{
	int priority = tek__rt_priority(nice);

	if (priority == member->rt_priority || (member->rt_priority && !is_ours(tid, member)))
		return;
	apply(tid, member, priority);
}

void tek__rt_leave(pid_t tid, struct tek_member *member)
{
	give_back(tid, member);
}

void tek__rt_undo(pid_t tid, struct tek_member *member)
{
	struct tek_sched_attr attr;

	if (tek__is_real_time(member->base.policy) || tek__scheduling_get(tid, &attr) ||
	    attr.policy != SCHED_RR)
		return;
	member->rt_priority = (unsigned char)attr.priority;
	give_back(tid, member);
}

int tek__rt_set(pid_t tid, int policy, bool reset_on_fork, int priority)
{
	struct tek_sched_attr attr = {.size = sizeof(attr), .policy = (uint32_t)policy};
	int saved = errno;

	attr.flags = reset_on_fork ? TEK_ATTR_RESET_ON_FORK : 0;
	if (tek__is_real_time(policy))
		attr.priority = (uint32_t)priority;
	else
		attr.nice = priority;
	int error = syscall(SYS_sched_setattr, tid, &attr, 0) ? errno : 0;
	errno = saved;
	return error;
}

void tek__rt_inherit(pid_t tid, const struct tek_base *base, int nice)
{
	int saved = errno;
	int policy = base->policy;
	int priority = base->priority;
	uint64_t slice_ns = base->slice_ns;

	if (base->reset_on_fork) {
		/* As the kernel would have done: sched_setscheduler(2). */
		slice_ns = 0;
		if (tek__is_real_time(policy)) {
			policy = SCHED_OTHER;
			priority = 0;
			nice = 0;
		} else if (nice < 0) {
			nice = 0;
		}
	}
	if (policy != SCHED_DEADLINE)
		set(tid, policy, false, priority);
	if (tek__scheduling_nice(tid) != nice)
		syscall(SYS_setpriority, PRIO_PROCESS, tid, nice);
	set_slice(tid, slice_ns);
	errno = saved;
}

void tek__rt_inherit_once(struct tek_thread *thread)
{
	if (!thread->inherits || !thread->tid)
		return;
	thread->inherits = false;
	tek__rt_inherit(thread->tid, &thread->birth.base, thread->birth.nice);
}
