/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Marked threads: Fast while a thread of their group makes a request. */
#include "mediate/region.h"

#include "base/clock.h"
#include "mediate/config.h"
#include "mediate/reasons.h"
#include "mediate/region_state.h"
#include "threads/record.h"

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

void tek__region_settle_group(unsigned int group)
{
	struct group_request request = {.group = (unsigned char)group};

	if (tek__region.marked == 0)
		return;
	if (tek__config.follow_marked)
		tek__thread_each(find_request, &request);
	tek__thread_each(follow, &request);
}

void tek__region_mark(struct tek_thread *thread, bool marked)
{
	if (thread->member.marked == marked)
		return;
	if (!marked)
		tek__region_drop(thread, TEK_WHY_FOLLOW);
	thread->member.marked = marked;
	tek__region.marked += marked ? 1u : -1u;
	tek__thread_publish(thread);
	tek__region_settle_group(thread->member.group);
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
	tek__region_settle_group(old);
	tek__region_settle_group(group);
}

bool tek__region_has_marks(void)
{
	return tek__region.marked > 0;
}

void tek__region_follow_marked(bool on)
{
	tek__config.follow_marked = on;
	for (unsigned int group = 0; group <= TEK_GROUP_BACKGROUND; group++)
		tek__region_settle_group(group);
}
