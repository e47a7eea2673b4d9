/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/region.h"

#include "base/clock.h"
#include "mediate/config.h"
#include "mediate/connection.h"
#include "mediate/daemon.h"
#include "mediate/effect.h"
#include "mediate/guard.h"
#include "mediate/lift.h"
#include "mediate/reasons.h"
#include "mediate/rt.h"
#include "mediate/times.h"
#include "threads/hooks.h"
#include "threads/process.h"
#include "threads/record.h"
#include "threads/report.h"

#include <errno.h>
#include <tek/tek.h>
#include <unistd.h>

static struct tek_thread *first;
static unsigned int member_count;
static unsigned int marked_count;
static unsigned int returning_count; /* threads that a rule will take back */

/* After its n-th overrun a thread is out for 2^(n-1) windows, up to 64. */
enum { MAX_BAN_SHIFT = 6 };

static void count_members(int change)
{
	struct tek_table_header *header = tek__table_header();
	member_count += (unsigned int)change;
	if (header)
		tek__table_count(&header->fast, member_count);
}

static void link_member(struct tek_thread *thread)
{
	thread->member.region_prev = NULL;
	thread->member.region_next = first;
	if (first)
		first->member.region_prev = thread;
	else
		tek__hooks.region_begins();
	first = thread;
	count_members(+1);
}

static void unlink_member(struct tek_thread *thread)
{
	struct tek_member *member = &thread->member;
	if (member->region_prev)
		member->region_prev->member.region_next = member->region_next;
	else
		first = member->region_next;
	if (member->region_next)
		member->region_next->member.region_prev = member->region_prev;
	member->region_prev = member->region_next = NULL;
	count_members(-1);
}

struct tek_thread *tek__region_first(void)
{
	return first;
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

int tek__region_settle(struct tek_thread *thread)
{
	struct tek_member *member = &thread->member;
	const unsigned int generation = thread->generation;
	int error;

	end_time(member);
	bool wanted = member->reasons != 0;
	if (wanted && !thread->tid)
		return ESRCH; /* not known yet; and 0 would mean the caller to the kernel */
	/* A thread that exited without its destructor: its tid may be another process's by now. */
	if (wanted && !member->fast && thread != tek__thread_known_self() &&
	    !tek__thread_exists(thread))
		return ESRCH;
	tek__rt_inherit_once(thread);
	if (wanted)
		member->nice = (signed char)tek__reasons_nice(member);
	if (wanted && !member->fast) {
		error = member->paused ? tek__effect_ready() : tek__effect_enter(thread);
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
		tek__effect_move(thread->tid, member);
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

/* The best request in a group, for its marked threads. */
struct group_request {
	unsigned char group;
	bool made;
	int nice;
	uint64_t until_ns; /* 0: for as long as it is made */
};

static void find_request(struct tek_thread *thread, void *context)
{
	struct group_request *request = context;
	struct tek_member own = thread->member;

	own.reasons &= TEK_WHY_REQUEST;
	if (own.group != request->group || !own.reasons)
		return;
	uint64_t until_ns = tek__reasons_end(&own);
	int nice = tek__reasons_nice(&own);
	request->until_ns = request->made ? tek__later_end(request->until_ns, until_ns) : until_ns;
	if (!request->made || nice < request->nice)
		request->nice = nice;
	request->made = true;
}

static void follow(struct tek_thread *thread, void *context)
{
	const struct group_request *request = context;
	struct tek_member *member = &thread->member;

	if (member->group != request->group)
		return;
	if (member->marked && request->made) {
		if (member->banned_until_ns > tek__now(CLOCK_MONOTONIC))
			return;
		member->follow_nice = (signed char)request->nice;
		member->follow_until_ns = request->until_ns;
		member->reasons |= TEK_WHY_FOLLOW;
		if (tek__region_settle(thread) == 0)
			return;
		/* The requesting thread has got the same error. */
	} else if (!(member->reasons & TEK_WHY_FOLLOW)) {
		return;
	}
	member->reasons &= (unsigned char)~TEK_WHY_FOLLOW;
	tek__region_settle(thread);
}

/* Requests or marks in a group have changed. */
static void settle_group(unsigned int group)
{
	struct group_request request = {.group = (unsigned char)group};

	if (marked_count == 0)
		return;
	if (tek__config.follow_marked)
		tek__thread_each(find_request, &request);
	tek__thread_each(follow, &request);
}

static int ask(struct tek_thread *thread, unsigned int reason, int nice)
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
	settle_group(member->group);
	return 0;
}

int tek__region_ask(struct tek_thread *thread, unsigned int reason, int nice)
{
	tek__region_receive();
	return ask(thread, reason, nice);
}

static void drop(struct tek_thread *thread, unsigned int reasons)
{
	if (!(thread->member.reasons & reasons))
		return;
	thread->member.reasons &= (unsigned char)~reasons;
	tek__region_settle(thread);
	settle_group(thread->member.group);
}

void tek__region_drop(struct tek_thread *thread, unsigned int reasons)
{
	tek__region_receive();
	drop(thread, reasons);
}

static void set_returns(struct tek_member *member, bool returns)
{
	returning_count += (unsigned int)returns - (unsigned int)member->returns;
	member->returns = returns;
}

/* It is out, by a decision of this library or of tekd. */
static void put_out(struct tek_thread *thread)
{
	thread->member.reasons = 0;
	tek__region_settle(thread);
	settle_group(thread->member.group);
}

/* Out because of its budget, for longer each time. Returns for how long. */
static uint64_t ban(struct tek_thread *thread, uint64_t window_ns)
{
	struct tek_member *member = &thread->member;
	unsigned int shift = member->overruns < MAX_BAN_SHIFT ? member->overruns : MAX_BAN_SHIFT;
	uint64_t ban_ns = window_ns << shift;

	member->overruns++;
	member->banned_until_ns = tek__now(CLOCK_MONOTONIC) + ban_ns;
	set_returns(member, member->reasons & TEK_WHY_RULE);
	put_out(thread);
	return ban_ns;
}

void tek__region_expel(struct tek_thread *thread, uint64_t used_ns)
{
	uint64_t window_ns = tek__guard_budget(thread).window_ns;
	tek__report_overrun(thread, used_ns, window_ns, ban(thread, window_ns));
}

struct readmission {
	uint64_t now, next;
};

static void readmit(struct tek_thread *thread, void *context)
{
	struct readmission *readmission = context;
	struct tek_member *member = &thread->member;

	if (!member->returns)
		return;
	if (member->banned_until_ns > readmission->now) {
		if (member->banned_until_ns < readmission->next)
			readmission->next = member->banned_until_ns;
		return;
	}
	set_returns(member, false);
	if (ask(thread, TEK_WHY_RULE, member->rule_nice) != EDQUOT)
		return;
	/* tekd wants it to stay out for longer. */
	set_returns(member, true);
	member->banned_until_ns = readmission->now + tek__guard_budget(thread).window_ns;
}

uint64_t tek__region_readmit(uint64_t now)
{
	struct readmission readmission = {.now = now, .next = UINT64_MAX};

	if (returning_count)
		tek__thread_each(readmit, &readmission);
	return readmission.next;
}

static void follow_daemon(struct tek_thread *thread, const struct tek_taken *taken)
{
	uint64_t allowed_ns = taken->allowed_ns < TEK_WINDOW_MAX_NS ? taken->allowed_ns
								    : TEK_WINDOW_MAX_NS;

	/* Another thread of the process needed its place. */
	if (taken->error == EAGAIN && thread->member.asked_lift) {
		tek__lift_end(thread);
		return;
	}
	switch (taken->error) {
	case EDQUOT:
		if (allowed_ns) {
			/* Its allowance is at most tekd's window, so the ban is not longer. */
			ban(thread, allowed_ns);
			tek__report_overrun_of(thread, taken->used_ns, allowed_ns);
			break;
		}
		/* All threads had to leave. */
		tek__report_refused(thread, EDQUOT, tek__connection_why());
		/* fall through */
	case ECONNRESET: /* tekd is gone; the next one shall have the thread again */
		set_returns(&thread->member, thread->member.reasons & TEK_WHY_RULE);
		put_out(thread);
		break;
	case ETIME:
		put_out(thread);
		break;
	default:
		put_out(thread);
		tek__report_refused(thread, EPERM, tek__connection_why());
	}
}

void tek__region_receive(void)
{
	struct tek_thread *thread = first;
	struct tek_taken taken;

	if (!tek__daemon_is_in_play())
		return;
	tek__daemon_listen();
	while (thread) {
		bool is_out = tek__daemon_has_taken(&thread->member, &taken);
		if (is_out)
			follow_daemon(thread, &taken);
		/* Other threads may have left with it: begin again. */
		thread = is_out ? first : thread->member.region_next;
	}
	tek__region_readmit(tek__now(CLOCK_MONOTONIC));
}

void tek__region_receive_locked(void)
{
	if (!tek__lock())
		return;
	tek__region_receive();
	tek__unlock();
}

void tek__region_budget_changed(void)
{
	struct tek_thread *thread;

	for (thread = first; thread; thread = thread->member.region_next)
		if (thread->member.connection && !thread->member.paused)
			tek__effect_move(thread->tid, &thread->member);
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
	set_returns(member, false);
	member->reasons = 0;
	if (member->marked)
		marked_count--;
	member->marked = false;
	if (reasons & TEK_WHY_REQUEST)
		settle_group(member->group);
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

void tek__region_resume(struct tek_thread *thread)
{
	struct tek_member *member = &thread->member;

	const unsigned int generation = thread->generation;

	member->paused = false;
	int error = member->fast ? tek__effect_enter(thread) : 0;
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

void tek__region_mark(struct tek_thread *thread, bool marked)
{
	if (thread->member.marked == marked)
		return;
	if (!marked)
		tek__region_drop(thread, TEK_WHY_FOLLOW);
	thread->member.marked = marked;
	marked_count += marked ? 1u : -1u;
	tek__thread_publish(thread);
	settle_group(thread->member.group);
}

void tek__region_set_group(struct tek_thread *thread, unsigned int group)
{
	unsigned int old = thread->member.group;
	if (old == group)
		return;
	thread->member.group = (unsigned char)group;
	tek__thread_publish_record(thread);
	if (!tek__region_has_marks())
		return;
	settle_group(old);
	settle_group(group);
}

bool tek__region_has_marks(void)
{
	return marked_count > 0;
}

void tek__region_follow_marked(bool on)
{
	tek__config.follow_marked = on;
	for (unsigned int group = 0; group <= TEK_GROUP_BACKGROUND; group++)
		settle_group(group);
}

void tek__region_follow_rule(struct tek_thread *thread, unsigned int rule, int nice)
{
	struct tek_member *member = &thread->member;

	set_returns(member, false);
	member->rule = (unsigned char)rule;
	if (tek__region_ask(thread, TEK_WHY_RULE, nice) == EDQUOT) {
		member->rule_nice = (signed char)nice;
		set_returns(member, true);
	}
	/* Any other refusal has been reported, and the program runs on. */
}

void tek__region_follow_no_rule(struct tek_thread *thread)
{
	set_returns(&thread->member, false);
	thread->member.rule = 0;
	tek__region_drop(thread, TEK_WHY_RULE);
}

void tek__region_end(void)
{
	tek__lift_stop();
	tek__region_receive();
	while (first) {
		set_returns(&first->member, false);
		put_out(first);
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
	first = NULL;
	member_count = tek__times_lifted = marked_count = returning_count = 0;
}
