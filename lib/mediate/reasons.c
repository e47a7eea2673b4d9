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
