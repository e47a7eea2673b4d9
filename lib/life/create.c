/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "life/create.h"

#include "base/clock.h"
#include "base/module.h"
#include "base/passed.h"
#include "base/real.h"
#include "base/start_routine.h"
#include "life/crowd.h"
#include "life/names.h"
#include "mediate/attr.h"
#include "mediate/daemon.h"
#include "mediate/effect.h"
#include "mediate/guard.h"
#include "mediate/region.h"
#include "mediate/rt.h"
#include "mediate/rules.h"
#include "place/place.h"
#include "stack/config.h"
#include "stack/stack.h"
#include "threads/process.h"
#include "threads/thread.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

/* There is one where libtek-profile.so is. */
#pragma weak tek_prof__passed

/* Once, by the creator or by the thread itself, whichever comes first. Needs the lock. */
static void enter_if_born_critical(struct tek_thread *thread)
{
	if (!thread->born_critical || !thread->tid)
		return;
	thread->born_critical = false;
	tek__region_ask(thread, TEK_WHY_POLICY, thread->born_priority);
}

/*
 * The C library knows the kernel id of a thread that it has just made: the kernel
 * wrote it before the thread ran (clone(2), CLONE_PARENT_SETTID).
 */
static void learn_own_tid(void)
{
	clockid_t clock;
	if (pthread_getcpuclockid(pthread_self(), &clock) == 0)
		tek__self_is(tek__tid_of_cpu_clock(clock));
}

static void *trampoline(void *value)
{
	struct tek_thread *thread = value;

	learn_own_tid();
	enum tek_locked locked = tek__lock_either();
	if (locked) {
		thread = tek__thread_begin(thread);
		tek__rt_inherit_once(thread);
		tek__place_settle(thread);
		enter_if_born_critical(thread);
		tek__rules_apply(thread);
		tek__stack_begins(thread);
		tek__daemon_placed();
	}
	/* A copy: once the lock has been released nothing in *thread is stable. */
	const struct tek_birth birth = thread->birth;
	tek__unlock_either(locked);
	if (locked)
		tek__place_begun(&birth);
	if (locked)
		tek__stack_prepare(thread);
	errno = 0; /* as in any thread that begins */
	return birth.routine(birth.argument);
}

/* The scheduling that the C library sets before the child runs. Returns true if it sets any. */
static bool explicit_scheduling(const pthread_attr_t *attr, struct tek_seen *seen)
{
	int scheduling = PTHREAD_INHERIT_SCHED, policy;
	struct sched_param param;

	if (!attr || pthread_attr_getinheritsched(attr, &scheduling) ||
	    scheduling != PTHREAD_EXPLICIT_SCHED)
		return false;
	pthread_attr_getschedpolicy(attr, &policy);
	pthread_attr_getschedparam(attr, &param);
	seen->policy = (unsigned char)policy;
	seen->rt_priority = (unsigned char)param.sched_priority;
	return true;
}

/* The scheduling that the kernel gives to a child: sched(7), reset-on-fork. */
static struct tek_seen seen_in_child(struct tek_seen seen)
{
	if (seen.reset_on_fork && tek__is_real_time(seen.policy))
		return (struct tek_seen){.policy = SCHED_OTHER};
	if (seen.reset_on_fork && seen.nice < 0)
		seen.nice = 0;
	seen.reset_on_fork = false;
	return seen;
}

/* Fills in the state that a child inherits from the calling thread. Needs the lock. */
static void inherit(struct tek_thread *child, const pthread_attr_t *attr)
{
	struct tek_thread *self = tek__thread_self();

	if (!self)
		return;
	if (!self->kernel_name[0] && (tek__stack_is_on() || tek__rules_by_name))
		tek__c_library.prctl(PR_GET_NAME, self->kernel_name);
	child->birth.creator = self->tid;
	child->member.group = self->member.group;
	memcpy(child->kernel_name, self->kernel_name, sizeof(child->kernel_name));
	child->seen = seen_in_child(self->seen);
	bool is_explicit = explicit_scheduling(attr, &child->seen);
	if (!self->member.fast)
		return;

	child->inherits = true;
	child->birth.base = self->member.base;
	child->birth.nice = tek__scheduling_nice(0);
	if (is_explicit) {
		child->birth.base.policy = child->seen.policy;
		child->birth.base.priority = child->seen.rt_priority;
		child->birth.base.reset_on_fork = false;
		child->birth.base.slice_ns =
			0; /* the C library sets a policy, and the kernel the usual slice */
	}
}

/* Whether the attributes ask for a thread born critical. */
static bool born_critical(const pthread_attr_t *attr)
{
	int scheduling;
	return attr && tek__attr_has_policy(attr) &&
	       pthread_attr_getinheritsched(attr, &scheduling) == 0 &&
	       scheduling == PTHREAD_EXPLICIT_SCHED;
}

/* A stack that TEK chose cannot be had: the program's own choice counts. */
__attribute__((cold)) static int create_unfitted(struct tek_thread *thread, pthread_t *handle,
						 const pthread_attr_t *attr)
{
	if (tek__lock()) {
		tek__stack_refused(thread);
		tek__unlock();
	}
	return tek__real.pthread_create(handle, attr, trampoline, thread);
}

/* The creator's part, where there is one: see create(). */
static void settle(struct tek_thread *thread, unsigned int generation, const pthread_t *handle)
{
	if (thread->generation != generation) /* it has ended already */
		return;
	/* Once it runs, *handle may be gone: it belongs to the program. */
	if (thread->state == TEK_SLOT_CREATING)
		tek__thread_born(thread, *handle);
	tek__rt_inherit_once(thread);
	tek__place_settle(thread);
	enter_if_born_critical(thread);
}

/* The creator may be Fast again. Most of the time it was not to be, and the brief lock will do. */
static void release(struct tek_thread *self)
{
	if (tek__lock_brief()) {
		const bool is_fast = self->member.fast;
		if (!is_fast)
			tek__region_resume(self);
		tek__unlock_brief();
		if (!is_fast)
			return;
	}
	if (!tek__lock())
		return;
	tek__region_resume(self);
	tek__unlock();
}

/*
 * With the lock held; it is released. Most threads set themselves up when they begin. The creator
 * does so for a thread that may not get a CPU in time: one that has to precede all others, that
 * inherits its creator's priority, or that waits behind it for a foreign CPU. It also does so where
 * it may query the stack and the C library's answer would be wrong.
 */
static int create(enum tek_locked locked, struct tek_thread *thread, pthread_t *handle,
		  const pthread_attr_t *attr)
{
	struct tek_thread *self = tek__thread_self();
	const bool holds = self && tek__region_hold(self);
	pthread_attr_t chosen;

	inherit(thread, attr);
	if (tek__place_is_on())
		tek__place_deal(thread, attr);
	const pthread_attr_t *fitted = tek__stack_choose(thread, attr, &chosen);
	unsigned int generation = thread->generation;
	bool urgent = thread->inherits || thread->born_critical || thread->birth.place ||
		      thread->birth.fifo || thread->stack.room_bytes;

	tek__unlock_either(locked);
	int error = tek__real.pthread_create(handle, fitted, trampoline, thread);
	if (error && fitted != attr)
		error = create_unfitted(thread, handle, attr);
	if ((error || urgent) && tek__lock()) {
		if (error)
			tek__thread_free(thread);
		else
			settle(thread, generation, handle);
		tek__unlock();
	}
	if (holds)
		release(self);
	return error;
}

/* Where a slot is at hand there is nothing to do but writing to it. */
static enum tek_locked lock_to_create(bool critical)
{
	if (!critical && !tek__guard_is_lone() && tek__lock_brief()) {
		if (tek__thread_at_hand())
			return TEK_LOCKED_BRIEFLY;
		tek__unlock_brief();
	}
	if (!tek__lock())
		return TEK_NOT_LOCKED;
	/* A process with threads needs the guard. If it cannot be made, the timers stay. */
	if (tek__guard_is_lone())
		tek__guard_start();
	return TEK_LOCKED;
}

int tek__create(pthread_t *handle, const pthread_attr_t *attr, void *(*routine)(void *),
		void *argument, const void *call_site)
{
	bool critical = born_critical(attr);
	/* Through the profiler: what it passes on is not what the program asked for. */
	const struct tek_passed *passed = tek_prof__passed ? tek_prof__passed() : NULL;
	const uintptr_t asked = (uintptr_t)(passed ? passed->routine : routine);
	struct tek_start_routine start = {.function = asked};
	if (!tek__is_confined())
		start = tek__start_routine(&tek__files, asked,
					   passed ? passed->argument : argument);
	/* A rule may name either. */
	uint64_t functions = tek__rules_of_function(start.function);
	if (start.function != asked)
		functions |= tek__rules_of_function(asked);
	pthread_attr_t plain;
	int error = 0;

	if (passed)
		call_site = passed->call_site;
	if (tek__stack_is_on())
		tek__module_note((uintptr_t)call_site);

	enum tek_locked locked = lock_to_create(critical);
	if (!locked)
		return critical ? EAGAIN
				: tek__real.pthread_create(handle, attr, routine, argument);
	/* Whether this process may have critical threads is known before there is one. */
	if (critical)
		error = tek__effect_ready();
	struct tek_thread *thread = error ? NULL : tek__thread_new();
	if (!thread) {
		tek__unlock_either(locked);
		if (critical)
			return error ? error : EAGAIN;
		return tek__real.pthread_create(handle, attr, routine, argument);
	}

	thread->birth.routine = routine;
	thread->birth.argument = argument;
	thread->birth.function = start.function;
	memcpy(thread->birth.name, start.name, sizeof(thread->birth.name));
	thread->birth.call_site = (uintptr_t)call_site;
	thread->birth.functions = functions;
	if (critical) {
		thread->born_critical = true;
		thread->born_priority = (signed char)tek__attr_priority(attr);
	}
	if (attr) {
		pthread_attr_getstacksize(attr, &thread->stack.bytes);
		if (tek__attr_has_policy(attr)) {
			tek__attr_without_policy(&plain, attr);
			attr = &plain;
		}
	}
	tek__names_start();
	tek__crowd_check();
	return create(locked, thread, handle, attr);
}
