/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/reasons.h"

#include <tek/tek.h>

static int smaller(int a, int b)
{
	return a < b ? a : b;
}

int tek__reasons_nice(const struct tek_member *member)
{
	int nice = TEK_PRIORITY_MAX;
	if (member->reasons & (TEK_WHY_ENTER | TEK_WHY_TIMED))
		nice = smaller(nice, 0);
	if (member->reasons & TEK_WHY_POLICY)
		nice = smaller(nice, member->policy_nice);
	if (member->reasons & TEK_WHY_RULE)
		nice = smaller(nice, member->rule_nice);
	if (member->reasons & TEK_WHY_FOLLOW)
		nice = smaller(nice, member->follow_nice);
	if (member->reasons & TEK_WHY_LIFT)
		nice = smaller(nice, member->lift_nice);
	return nice;
}

struct tek_stay tek__reasons_stay(const struct tek_member *member)
{
	struct tek_stay stay = {.nice = (signed char)tek__reasons_nice(member)};
	struct tek_member part = *member;

	part.reasons &= TEK_WHY_TIMED | TEK_WHY_FOLLOW;
	stay.until_ns = part.reasons ? tek__reasons_end(&part) : 0;
	part.reasons ^= member->reasons;
	if (!stay.until_ns || !part.reasons)
		return stay;
	stay.later_nice = (signed char)tek__reasons_nice(&part);
	stay.goes_on = stay.later_nice > stay.nice;
	/* The end of a reason that changes nothing is none. */
	return stay.goes_on ? stay : (struct tek_stay){.nice = stay.nice};
}

uint64_t tek__reasons_end(const struct tek_member *member)
{
	bool timed = member->reasons & TEK_WHY_TIMED, follows = member->reasons & TEK_WHY_FOLLOW;

	if (member->reasons & ~(TEK_WHY_TIMED | TEK_WHY_FOLLOW))
		return 0;
	/* A stay without end has the largest time value as its deadline. */
	if (timed && member->deadline_ns == UINT64_MAX)
		return 0;
	if (timed && follows)
		return tek__later_end(member->deadline_ns, member->follow_until_ns);
	return timed ? member->deadline_ns : member->follow_until_ns;
}
