/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ident/create.h"

#include "ident/process.h"
#include "ident/thread.h"
#include "mediate/attr.h"
#include "mediate/guard.h"
#include "mediate/region.h"
#include "mediate/rt.h"
#include "preload/real.h"

#include <errno.h>

/* Once, by the creator or by the thread itself, whichever comes first. Needs the lock. */
static void enter_if_born_critical(struct tek_thread *thread)
{
	if (!thread->born_critical || !thread->tid)
		return;
	thread->born_critical = false;
	tek__region_ask(thread, TEK_WHY_POLICY, thread->born_priority);
}

static void *trampoline(void *value)
{
	struct tek_thread *thread = value;
	/* A copy: once the lock has been released nothing in *thread is stable. */
	const struct tek_birth birth = thread->birth;

	if (tek__lock()) {
		tek__thread_begin(thread);
		tek__thread_inherit(thread);
		enter_if_born_critical(thread);
		tek__unlock();
	}
	return birth.routine(birth.argument);
}

/* What a child of the calling thread inherits from it. Needs the lock. */
static void inherit(struct tek_thread *child, const pthread_attr_t *attr)
{
	const struct tek_thread *self = tek__thread_self();
	int scheduling = PTHREAD_INHERIT_SCHED;

	if (!self)
		return;
	child->member.group = self->member.group;
	if (!self->member.fast)
		return;

	child->inherits = true;
	child->birth.base = self->member.base;
	child->birth.nice = tek__rt_nice(0);
	if (attr)
		pthread_attr_getinheritsched(attr, &scheduling);
	if (scheduling == PTHREAD_EXPLICIT_SCHED) {
		/* The C library sets these itself before the child runs. */
		struct sched_param param;
		int policy;
		pthread_attr_getschedpolicy(attr, &policy);
		pthread_attr_getschedparam(attr, &param);
		child->birth.base.policy = (unsigned char)policy;
		child->birth.base.priority = (unsigned char)param.sched_priority;
		child->birth.base.reset_on_fork = false;
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

/* With the lock held; it is released meanwhile. */
static int create(struct tek_thread *thread, pthread_t *handle, const pthread_attr_t *attr)
{
	unsigned int generation = thread->generation;

	tek__unlock();
	int error = tek__real.pthread_create(handle, attr, trampoline, thread);
	tek__lock();
	if (error) {
		tek__thread_free(thread);
	} else if (thread->generation == generation) { /* else it has ended already */
		/* Once it runs, *handle may be gone: it belongs to the program. */
		if (thread->state == TEK_SLOT_CREATING)
			tek__thread_born(thread, *handle);
		tek__thread_inherit(thread);
		enter_if_born_critical(thread);
	}
	return error;
}

int tek__create(pthread_t *handle, const pthread_attr_t *attr, void *(*routine)(void *),
		void *argument)
{
	bool critical = born_critical(attr);
	pthread_attr_t plain;
	int error = 0;

	if (!tek__lock())
		return critical ? EAGAIN
				: tek__real.pthread_create(handle, attr, routine, argument);
	/* Whether this process may have critical threads is known before there is one. */
	if (critical)
		error = tek__guard_start();
	struct tek_thread *thread = error ? NULL : tek__thread_new();
	if (!thread) {
		tek__unlock();
		if (critical)
			return error ? error : EAGAIN;
		return tek__real.pthread_create(handle, attr, routine, argument);
	}

	thread->birth.routine = routine;
	thread->birth.argument = argument;
	if (critical) {
		thread->born_critical = true;
		thread->born_priority = (signed char)tek__attr_priority(attr);
	}
	if (attr) {
		pthread_attr_getstacksize(attr, &thread->stack_bytes);
		if (tek__attr_has_policy(attr)) {
			tek__attr_without_policy(&plain, attr);
			attr = &plain;
		}
	}
	inherit(thread, attr);
	error = create(thread, handle, attr);
	tek__unlock();
	return error;
}
