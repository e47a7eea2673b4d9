/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The functions of tek/tek.h. */
#include "base/clock.h"
#include "base/export.h"
#include "mediate/config.h"
#include "mediate/effect.h"
#include "mediate/group.h"
#include "mediate/guard.h"
#include "mediate/region.h"
#include "threads/process.h"

#include <errno.h>
#include <tek/tek.h>

/*
 * Take the lock and find the calling thread; an error number where that cannot
 * be: EAGAIN in a signal handler that interrupted TEK or when there is no slot.
 */
static int begin(struct tek_thread **self)
{
	if (!tek__lock())
		return EAGAIN;
	*self = tek__thread_self();
	if (*self)
		return 0;
	tek__unlock();
	return EAGAIN;
}

TEK_EXPORT int tek_critical_enter(void)
{
	struct tek_thread *self;
	int error = begin(&self);
	if (error)
		return error;

	struct tek_member *member = &self->member;
	if (member->depth == UINT16_MAX)
		error = EOVERFLOW;
	else if (!(member->reasons & TEK_WHY_ENTER))
		error = tek__region_ask(self, TEK_WHY_ENTER, 0);
	if (!error)
		member->depth++;
	tek__unlock();
	return error;
}

TEK_EXPORT int tek_critical_leave(void)
{
	struct tek_thread *self;
	int error = begin(&self);
	if (error)
		return error;

	if (self->member.depth == 0)
		error = EINVAL;
	else if (--self->member.depth == 0)
		tek__region_drop(self, TEK_WHY_ENTER);
	tek__unlock();
	return error;
}

TEK_EXPORT int tek_critical_for(uint64_t ns)
{
	struct tek_thread *self;
	uint64_t deadline = tek__now(CLOCK_MONOTONIC) + ns;
	int error = ns == 0 ? EINVAL : begin(&self);
	if (error)
		return error;

	struct tek_member *member = &self->member;
	if (deadline < ns)
		deadline = UINT64_MAX;
	bool longer = !(member->reasons & TEK_WHY_TIMED) || deadline > member->deadline_ns;
	if (longer) {
		uint64_t before = member->deadline_ns;
		member->deadline_ns = deadline;
		error = tek__region_ask(self, TEK_WHY_TIMED, 0);
		if (error)
			member->deadline_ns = before;
		else
			tek__guard_deadline(deadline);
	}
	tek__unlock();
	return error;
}

TEK_EXPORT int tek_thread_mark(pthread_t handle, int marked)
{
	if (marked != 0 && marked != 1)
		return EINVAL;
	if (!tek__lock())
		return EAGAIN;
	struct tek_thread *thread = tek__thread_find(handle);
	if (thread)
		tek__region_mark(thread, marked);
	tek__unlock();
	return thread ? 0 : ESRCH;
}

TEK_EXPORT int tek_thread_set_group(pthread_t handle, enum tek_group group)
{
	if ((unsigned int)group > TEK_BACKGROUND)
		return EINVAL;
	if (!tek__lock())
		return EAGAIN;
	struct tek_thread *thread = tek__thread_find(handle);
	if (thread)
		tek__group_give(thread, group);
	tek__unlock();
	return thread ? 0 : ESRCH;
}

TEK_EXPORT int tek_thread_get_group(pthread_t handle, enum tek_group *group)
{
	if (!tek__lock())
		return EAGAIN;
	struct tek_thread *thread = tek__thread_find(handle);
	if (thread)
		*group = (enum tek_group)thread->member.group;
	tek__unlock();
	return thread ? 0 : ESRCH;
}

TEK_EXPORT int tek_follow_marked(int on)
{
	if (on != 0 && on != 1)
		return EINVAL;
	if (!tek__lock())
		return EAGAIN;
	tek__region_follow_marked(on);
	tek__unlock();
	return 0;
}

TEK_EXPORT int tek_set_budget(uint64_t cpu_ns, uint64_t window_ns)
{
	if (window_ns < TEK_WINDOW_MIN_NS || window_ns > TEK_WINDOW_MAX_NS || cpu_ns > window_ns)
		return EINVAL;
	if (!tek__lock())
		return EAGAIN;
	tek__config.budget = (struct tek_budget){.cpu_ns = cpu_ns, .window_ns = window_ns};
	tek__config.budget_given = true;
	tek__guard_budget_changed();
	tek__region_budget_changed();
	tek__unlock();
	return 0;
}

TEK_EXPORT int tek_check(void)
{
	if (!tek__lock())
		return EAGAIN;
	int error = tek__effect_ready();
	tek__unlock();
	return error;
}

TEK_EXPORT const char *tek_version(void)
{
	return TEK_VERSION;
}
