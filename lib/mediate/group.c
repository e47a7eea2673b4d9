/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/group.h"

#include "base/clock.h"
#include "mediate/config.h"
#include "mediate/connection.h"
#include "mediate/daemon.h"
#include "threads/report.h"

#include <errno.h>
#include <string.h>

#define LEFT_ALONE_NS (10 * TEK_NS_PER_SEC)

uint64_t tek__group_again_ns[TEK_GROUPS];
unsigned int tek__group_given;

static bool may_ask_for(unsigned int group)
{
	uint64_t *again_ns = &tek__group_again_ns[group];

	if (*again_ns && tek__now(CLOCK_MONOTONIC) < *again_ns)
		return false;
	*again_ns = 0;
	return true;
}

static void leave_alone(unsigned int first, unsigned int last)
{
	for (unsigned int group = first; group <= last; group++)
		tek__group_again_ns[group] = tek__now(CLOCK_MONOTONIC) + LEFT_ALONE_NS;
}

static void place(const struct tek_thread *thread, unsigned int group)
{
	int error = tek__daemon_place(thread->tid, group);

	switch (error) {
	case 0:
	case ESRCH: /* it ends */
		break;
	case ENOENT:     /* no tekd, and none is required */
	case EOPNOTSUPP: /* it makes no groups */
		leave_alone(0, TEK_GROUPS - 1);
		break;
	case ENOTCONN:
		tek__report_not_placed(thread, error, tek__connection_why());
		leave_alone(0, TEK_GROUPS - 1);
		break;
	case EBUSY: /* too many requests in a short time: the next one may be none too many */
		tek__report_not_placed(thread, error, tek__connection_why());
		break;
	default:
		tek__report_not_placed(thread, error, tek__connection_why());
		leave_alone(group, group);
	}
	tek__daemon_placed();
}

void tek__group_give(struct tek_thread *thread, unsigned int group)
{
	bool is_new = thread->member.group != group;

	tek__group_give_brief(thread, group);
	if (is_new && thread->tid && may_ask_for(group))
		place(thread, group);
}

void tek__group_forget(const struct tek_thread *self)
{
	if (self)
		tek__config.group = self->member.group;
	memset(tek__group_again_ns, 0, sizeof(tek__group_again_ns));
}
