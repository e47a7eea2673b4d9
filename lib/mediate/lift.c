/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/lift.h"

#include "base/clock.h"

#include <errno.h>
#include <tek/tek.h>

int tek__lift_nice(const struct tek_thread *waiter)
{
	int nice = waiter->member.nice;

	return nice < TEK_PRIORITY_MAX ? nice + 1 : nice;
}

static bool is_stopped;

void tek__lift_stop(void)
{
	is_stopped = true;
}

int tek__lift(struct tek_thread *holder, int nice)
{
	struct tek_member *member = &holder->member;
	const bool was_lifted = member->reasons & TEK_WHY_LIFT;
	const unsigned int generation = holder->generation;

	if (is_stopped)
		return EPERM;
	if (was_lifted && member->lift_nice == nice)
		return 0;
	if (member->banned_until_ns && member->banned_until_ns > tek__now(CLOCK_MONOTONIC))
		return EDQUOT;
	member->lift_nice = (signed char)nice;
	member->reasons |= TEK_WHY_LIFT;
	int error = tek__region_settle(holder);
	/* The lock was free meanwhile: it may be another thread's structure by now. */
	if (error && holder->generation == generation)
		member->reasons &= (unsigned char)~TEK_WHY_LIFT;
	return error;
}

void tek__lift_end(struct tek_thread *holder)
{
	if (!(holder->member.reasons & TEK_WHY_LIFT))
		return;
	holder->member.reasons &= (unsigned char)~TEK_WHY_LIFT;
	tek__region_settle(holder);
}
