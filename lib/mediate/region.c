/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/region.h"

#include "base/clock.h"
#include "mediate/connection.h"
#include "mediate/effect.h"
#include "mediate/guard.h"
#include "mediate/lift.h"
#include "mediate/reasons.h"
#include "mediate/region_state.h"
#include "mediate/rt.h"
#include "mediate/times.h"
#include "threads/hooks.h"
#include "threads/record.h"
#include "threads/report.h"

#include <errno.h>

struct tek_region_state tek__region;

static void count_members(int change)
{
	struct tek_table_header *header = tek__table_header();
	tek__region.members += (unsigned int)change;
	if (header)
		tek__table_count(&header->fast, tek__region.members);
}

static void link_member(struct tek_thread *thread)
{
	thread->member.region_prev = NULL;
	thread->member.region_next = tek__region.first;
	if (tek__region.first)
		tek__region.first->member.region_prev = thread;
	else
		tek__hooks.region_begins();
	tek__region.first = thread;
	count_members(+1);
}

static void unlink_member(struct tek_thread *thread)
{
	struct tek_member *member = &thread->member;
	if (member->region_prev)
		member->region_prev->member.region_next = member->region_next;
	else
		tek__region.first = member->region_next;
	if (member->region_next)
		member->region_next->member.region_prev = member->region_prev;
	member->region_prev = member->region_next = NULL;
	count_members(-1);
}

struct tek_thread *tek__region_first(void)
{
	return tek__region.first;
}

/* A time that is over is no reason, whether or not the guard has been there. */
static void end_time(struct tek_member *member)
{
	if (member->reasons & TEK_WHY_TIMED && member->deadline_ns <= tek__now(CLOCK_MONOTONIC))
		member->reasons &= (unsigned char)~TEK_WHY_TIMED;
}

/* A thread that waits has become Fast, or one that has lifted others is not Fast any more. */
static void waits_changed(const struct tek_thread *thread)
{
	if (tek__times_lifted || (thread->member.fast && thread->waits_for))
		tek__hooks.waits_changed();
}

/* It becomes Fast when it is resumed. Until then it has its base. */
static int enter_paused(struct tek_thread *thread)
{
	const struct tek_member *member = &thread->member;
	const unsigned int generation = thread->generation;
	const int error = tek__effect_ready();

	/* Making the guard gives up the lock. */
	if (thread->generation != generation)
		return ESRCH;
	if (member->fast)
		return 0;
	if (error)
		return error;
	/* It may have been resumed. */
	return member->reasons ? tek__effect_enter(thread) : ETIME;
}

int tek__region_settle(struct tek_thread *thread)
{
	struct tek_member *member = &thread->member;
	const unsigned int generation = thread->generation;
	int error;

	end_time(member);
	bool wanted = member->reasons != 0;
	/* A tid that is not known yet would mean the caller to the kernel. */
	if (wanted && (!thread->tid || thread->leaving))
		return ESRCH;
	/* A thread that exited without its destructor: its tid may be another process's by now. */
	if (wanted && !member->fast && thread != tek__thread_known_self() &&
	    !tek__thread_exists(thread))
		return ESRCH;
	tek__rt_inherit_once(thread);
	if (wanted)
		member->nice = (signed char)tek__reasons_nice(member);
	if (wanted && !member->fast) {
		error = member->paused ? enter_paused(thread) : tek__effect_enter(thread);
		/* While the guard was made it may have ended, or changed by itself. */
		if (thread->generation != generation)
			return ESRCH;
		if (error)
			return error;
		if (member->fast)
			goto out;
		member->fast = true;
		tek__times_clock(member);
		tek__guard_enter(thread);
		link_member(thread);
	} else if (wanted && !member->paused) {
		if (tek__effect_move(thread->tid, member) == ETIME) {
			member->reasons = 0;
			return tek__region_settle(thread);
		}
	} else if (!wanted && member->fast) {
		tek__guard_leave(thread);
		if (!member->paused)
			tek__effect_leave(thread->tid, member);
		unlink_member(thread);
		member->fast = false;
	}
out:
	tek__times_clock(member);
	tek__thread_publish(thread);
	waits_changed(thread);
	return 0;
}

int tek__region_add(struct tek_thread *thread, unsigned int reason, int nice)
{
	struct tek_member *member = &thread->member;
	const struct tek_member before = *member;
	const unsigned int generation = thread->generation;

	if (member->banned_until_ns && member->banned_until_ns > tek__now(CLOCK_MONOTONIC))
		return EDQUOT;
	if (reason == TEK_WHY_POLICY)
		member->policy_nice = (signed char)nice;
	else if (reason == TEK_WHY_RULE)
		member->rule_nice = (signed char)nice;
	member->reasons |= (unsigned char)reason;

	int error = tek__region_settle(thread);
	if (error && thread->generation != generation)
		return ESRCH;
	if (error) {
		if (error != ESRCH && error != ETIME)
			tek__report_refused(thread, error, tek__connection_why());
		member->reasons = before.reasons;
		member->policy_nice = before.policy_nice;
		member->rule_nice = before.rule_nice;
		return error == ETIME ? 0 : error; /* its time was too short to be there for it */
	}
	tek__region_settle_group(member->group);
	return 0;
}

int tek__region_ask(struct tek_thread *thread, unsigned int reason, int nice)
{
	tek__region_receive();
	return tek__region_add(thread, reason, nice);
}

static void drop(struct tek_thread *thread, unsigned int reasons)
{
	if (!(thread->member.reasons & reasons))
		return;
	thread->member.reasons &= (unsigned char)~reasons;
	tek__region_settle(thread);
	tek__region_settle_group(thread->member.group);
}

void tek__region_drop(struct tek_thread *thread, unsigned int reasons)
{
	tek__region_receive();
	drop(thread, reasons);
}

void tek__region_put_out(struct tek_thread *thread)
{
	thread->member.reasons = 0;
	tek__region_settle(thread);
	tek__region_settle_group(thread->member.group);
}

void tek__region_remove(struct tek_thread *thread)
{
	struct tek_member *member = &thread->member;
	unsigned char reasons = member->reasons;

	if (member->fast) {
		tek__effect_end(thread->tid, member);
		unlink_member(thread);
		member->fast = false;
		tek__times_clock(member);
	}
	tek__region_set_returns(member, false);
	member->reasons = 0;
	if (member->marked)
		tek__region.marked--;
	member->marked = false;
	if (reasons & TEK_WHY_REQUEST)
		tek__region_settle_group(member->group);
	thread->waits_for = 0;
	waits_changed(thread);
}

bool tek__region_pause(struct tek_thread *thread)
{
	struct tek_member *member = &thread->member;

	tek__region_receive();
	if (member->paused)
		return false;
	if (member->fast)
		tek__effect_leave(thread->tid, member);
	member->paused = true;
	return true;
}

bool tek__region_hold(struct tek_thread *thread)
{
	struct tek_member *member = &thread->member;

	if (member->fast || member->paused)
		return false;
	member->paused = true;
	return true;
}

void tek__region_resume(struct tek_thread *thread)
{
	struct tek_member *member = &thread->member;
	const unsigned int generation = thread->generation;

	member->paused = false;
	if (!member->fast)
		return;
	int error = tek__effect_enter(thread);
	if (thread->generation != generation)
		return;
	tek__thread_publish(thread);
	if (!error)
		return;
	/* The privilege is gone, or its time has come: it cannot stay. */
	if (error != ETIME)
		tek__report_refused(thread, error, tek__connection_why());
	drop(thread, member->reasons);
}

void tek__region_end(void)
{
	tek__lift_stop();
	tek__region_receive();
	while (tek__region.first) {
		tek__region_set_returns(&tek__region.first->member, false);
		tek__region_put_out(tek__region.first);
	}
}

static void summarise(struct tek_thread *thread, void *unused)
{
	(void)unused;
	tek__report_summary(thread);
}

void tek__region_summarise(void)
{
	tek__thread_each(summarise, NULL);
}

void tek__region_forget(void)
{
	tek__region.first = NULL;
	tek__region.members = tek__times_lifted = tek__region.marked = tek__region.returning = 0;
}
