/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The result of a thread's reasons: a priority, and a duration. Pure functions of a member. */
#ifndef TEK_MEDIATE_REASONS_H
#define TEK_MEDIATE_REASONS_H

#include "threads/member.h"

/* The best SCHED_TEK priority (lowest nice value) among them. */
int tek__reasons_nice(const struct tek_member *member);

/* When the last of them ends by itself (CLOCK_MONOTONIC); 0: one of them does not. */
uint64_t tek__reasons_end(const struct tek_member *member);

/* The stay until the last of those with an end is over, and what is left then. */
struct tek_stay tek__reasons_stay(const struct tek_member *member);

/* The later of two such times. */
static inline uint64_t tek__later_end(uint64_t a, uint64_t b)
{
	if (!a || !b)
		return 0;
	return a > b ? a : b;
}

#endif
