/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/effect.h"

#include "mediate/daemon.h"
#include "mediate/guard.h"
#include "mediate/reasons.h"
#include "mediate/rt.h"

#include <errno.h>

static int enter_by_itself(struct tek_thread *thread)
{
	struct tek_member *member = &thread->member;
	const unsigned int generation = thread->generation;
	const bool was_fast = member->fast;

	/* A Fast thread is never without the guard, or the timers in its place. */
	int error = tek__guard_start_for(thread);
	/* That gives up the lock: another thread may have acted for this one. */
	if (thread->generation != generation)
		return ESRCH;
	if (!member->reasons)
		return ETIME;
	if (member->fast != was_fast)
		return 0;
	if (error)
		return error;
	return member->paused ? tek__rt_note_base(thread->tid, member)
			      : tek__rt_enter(thread->tid, member, member->nice);
}

int tek__effect_ready(void)
{
	if (tek__daemon_serves())
		return 0;
	int error = tek__guard_start();
	return error == EPERM && tek__daemon_grant() ? 0 : error;
}

int tek__effect_enter(struct tek_thread *thread)
{
	struct tek_member *member = &thread->member;
	const pid_t tid = thread->tid;

	if (!tek__daemon_serves()) {
		int error = enter_by_itself(thread);
		if (error != EPERM)
			return error;
		unsigned int grant = tek__daemon_grant();
		if (grant & TEK_GRANT_LIMIT)
			error = enter_by_itself(thread); /* its limit was raised just now */
		if (error != EPERM || !grant)
			return error;
	}
	return member->paused ? tek__rt_note_base(tid, member)
			      : tek__daemon_enter(tid, member, tek__reasons_stay(member));
}

int tek__effect_move(pid_t tid, struct tek_member *member)
{
	if (member->connection)
		return tek__daemon_move(tid, member, tek__reasons_stay(member));
	tek__rt_move(tid, member, member->nice);
	return 0;
}

void tek__effect_leave(pid_t tid, struct tek_member *member)
{
	if (member->connection)
		tek__daemon_leave(tid, member);
	else
		tek__rt_leave(tid, member);
}

void tek__effect_end(pid_t tid, struct tek_member *member)
{
	if (member->connection)
		tek__daemon_end(tid, member); /* so that it counts in no quota any more */
}
