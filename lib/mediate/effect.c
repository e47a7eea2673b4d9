/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/effect.h"

#include "mediate/daemon.h"
#include "mediate/guard.h"
#include "mediate/reasons.h"
#include "mediate/rt.h"

#include <errno.h>

static int enter_by_itself(pid_t tid, struct tek_member *member)
{
	/* A Fast thread is never without the guard. */
	int error = tek__guard_start();
	return error ? error : tek__rt_enter(tid, member, member->nice);
}

int tek__effect_ready(void)
{
	if (tek__daemon_serves())
		return 0;
	int error = tek__guard_start();
	return error == EPERM && tek__daemon_grant() ? 0 : error;
}

int tek__effect_enter(pid_t tid, struct tek_member *member)
{
	if (!tek__daemon_serves()) {
		int error = enter_by_itself(tid, member);
		if (error != EPERM)
			return error;
		unsigned int grant = tek__daemon_grant();
		if (grant & TEK_GRANT_LIMIT)
			error = enter_by_itself(tid, member); /* its limit was raised just now */
		if (error != EPERM || !grant)
			return error;
	}
	return tek__daemon_enter(tid, member, member->nice, tek__reasons_end(member));
}

void tek__effect_move(pid_t tid, struct tek_member *member)
{
	if (member->connection)
		tek__daemon_move(tid, member, member->nice, tek__reasons_end(member));
	else
		tek__rt_move(tid, member, member->nice);
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
		tek__daemon_leave(tid, member); /* so that it counts in no quota any more */
}
