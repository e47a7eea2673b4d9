/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/lift.h"

#include "base/clock.h"
#include "threads/record.h"

#include <errno.h>
#include <tek/tek.h>

int tek__lift_nice(const struct tek_thread *waiter)
{
	int nice = waiter->member.nice;

	return nice < TEK_PRIORITY_MAX ? nice + 1 : nice;
}

static void no_lift(struct tek_member *member)
{
	member->reasons &= (unsigned char)~TEK_WHY_LIFT;
	member->lifted_for = 0;
}

static bool is_stopped;

void tek__lift_stop(void)
{
	is_stopped = true;
}

static void set_waiter(struct tek_thread *holder, pid_t waiter)
{
	if (holder->member.lifted_for == waiter)
		return;
	holder->member.lifted_for = waiter;
	tek__thread_publish(holder);
}

int tek__lift(struct tek_thread *holder, int nice, pid_t waiter)
{
	struct tek_member *member = &holder->member;
	const bool was_lifted = member->reasons & TEK_WHY_LIFT;
	const unsigned int generation = holder->generation;

	if (is_stopped)
		return EPERM;
	if (was_lifted && member->lift_nice == nice) {
		set_waiter(holder, waiter);
		return 0;
	}
	if (member->banned_until_ns && member->banned_until_ns > tek__now(CLOCK_MONOTONIC))
		return EDQUOT;
	member->lift_nice = (signed char)nice;
	member->reasons |= TEK_WHY_LIFT;
	member->lifted_for = waiter;
	int error = tek__region_settle(holder);
	/* The lock was free meanwhile: it may be another thread's structure by now. */
	if (error && holder->generation == generation)
		no_lift(member);
	return error;
}

void tek__lift_end(struct tek_thread *holder)
{
	if (!(holder->member.reasons & TEK_WHY_LIFT))
		return;
	no_lift(&holder->member);
	tek__region_settle(holder);
}
