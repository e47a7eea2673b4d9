/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Bans of threads that exceed their budgets, and the return of those that a rule names. */
#include "mediate/region.h"

#include "base/clock.h"
#include "mediate/guard.h"
#include "mediate/region_state.h"
#include "threads/report.h"

#include <errno.h>

/* After its n-th overrun a thread is out for 2^(n-1) windows, up to 64. */
enum { MAX_BAN_SHIFT = 6 };

void tek__region_set_returns(struct tek_member *member, bool returns)
{
	tek__region.returning += (unsigned int)returns - (unsigned int)member->returns;
	member->returns = returns;
}

uint64_t tek__region_ban(struct tek_thread *thread, uint64_t window_ns)
{
	struct tek_member *member = &thread->member;
	unsigned int shift = member->overruns < MAX_BAN_SHIFT ? member->overruns : MAX_BAN_SHIFT;
	uint64_t ban_ns = window_ns << shift;

	member->overruns++;
	member->banned_until_ns = tek__now(CLOCK_MONOTONIC) + ban_ns;
	tek__region_set_returns(member, member->reasons & TEK_WHY_RULE);
	tek__region_put_out(thread);
	return ban_ns;
}

void tek__region_expel(struct tek_thread *thread, uint64_t used_ns)
{
	uint64_t window_ns = tek__guard_budget(thread).window_ns;
	tek__report_overrun(thread, used_ns, window_ns, tek__region_ban(thread, window_ns));
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
	tek__region_set_returns(member, false);
	if (tek__region_add(thread, TEK_WHY_RULE, member->rule_nice) != EDQUOT)
		return;
	/* tekd wants it to stay out for longer. */
	tek__region_set_returns(member, true);
	member->banned_until_ns = readmission->now + tek__guard_budget(thread).window_ns;
}

uint64_t tek__region_readmit(uint64_t now)
{
	struct readmission readmission = {.now = now, .next = UINT64_MAX};

	if (tek__region.returning)
		tek__thread_each(readmit, &readmission);
	return readmission.next;
}

void tek__region_follow_rule(struct tek_thread *thread, unsigned int rule, int nice)
{
	struct tek_member *member = &thread->member;

	tek__region_set_returns(member, false);
	member->rule = (unsigned char)rule;
	if (tek__region_ask(thread, TEK_WHY_RULE, nice) == EDQUOT) {
		member->rule_nice = (signed char)nice;
		tek__region_set_returns(member, true);
	}
	/* Any other refusal has been reported, and the program runs on. */
}

void tek__region_follow_no_rule(struct tek_thread *thread)
{
	tek__region_set_returns(&thread->member, false);
	thread->member.rule = 0;
	tek__region_drop(thread, TEK_WHY_RULE);
}
