/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The group of a thread, given by its program or by a rule. Inside the process it defines which
 * marks belong together (region.h). On the device it is a control group with a weight, in which
 * tekd places the thread.
 *
 * A thread begins in both groups of its creator. So TEK asks tekd only if the thread gets a group
 * that it is not in.
 *
 * Without tekd, or if tekd makes no groups, groups have their meaning inside the process only. TEK
 * does not call tekd again for ten seconds then, nor for a group that tekd refused.
 *
 * All functions need the lock (threads/process.h).
 */
#ifndef TEK_MEDIATE_GROUP_H
#define TEK_MEDIATE_GROUP_H

#include "mediate/region.h"
#include "threads/thread.h"

enum { TEK_GROUPS = TEK_GROUP_BACKGROUND + 1 };

/* When tekd may be asked again for a group (CLOCK_MONOTONIC); 0: now. */
extern uint64_t tek__group_again_ns[TEK_GROUPS];
/* How often a group was given briefly since. */
extern unsigned int tek__group_given;

/* The clock is looked at by one in so many of those: it takes as long as all the rest. */
enum { TEK_GROUP_REQUESTS = 64 };

/* Give it this group. At most one request to tekd. */
void tek__group_give(struct tek_thread *thread, unsigned int group);

/* Whether tek__group_give_brief() will do: nothing is to be asked of tekd. */
static inline bool tek__group_is_brief(const struct tek_thread *thread, unsigned int group)
{
	return thread->member.group == group ||
	       (tek__group_again_ns[group] && ++tek__group_given % TEK_GROUP_REQUESTS);
}

/* As tek__group_give(), without tekd. */
static inline void tek__group_give_brief(struct tek_thread *thread, unsigned int group)
{
	thread->group_given = true;
	tek__region_set_group(thread, group);
}

/* In the child of a fork, which begins where `self`, the forking thread, was; NULL: not known. */
void tek__group_forget(const struct tek_thread *self);

#endif
