/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What tekd does to the region by itself: it puts threads out, and has to know their budgets. */
#include "mediate/region.h"

#include "base/clock.h"
#include "mediate/connection.h"
#include "mediate/effect.h"
#include "mediate/lift.h"
#include "mediate/region_state.h"
#include "threads/process.h"
#include "threads/report.h"

#include <errno.h>

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
			tek__region_ban(thread, allowed_ns);
			tek__report_overrun_of(thread, taken->used_ns, allowed_ns);
			break;
		}
		/* All threads had to leave. */
		tek__report_refused(thread, EDQUOT, tek__connection_why());
		/* fall through */
	case ECONNRESET: /* tekd is gone; the next one shall have the thread again */
		tek__region_set_returns(&thread->member, thread->member.reasons & TEK_WHY_RULE);
		tek__region_put_out(thread);
		break;
	case ETIME:
		tek__region_put_out(thread);
		break;
	default:
		tek__region_put_out(thread);
		tek__report_refused(thread, EPERM, tek__connection_why());
	}
}

/* Whether the time of a stay is over, which has gone on for other reasons. */
static bool goes_on(const struct tek_member *member)
{
	return member->connection && member->asked.goes_on && member->reasons & TEK_WHY_TIMED &&
	       member->deadline_ns <= tek__now(CLOCK_MONOTONIC);
}

void tek__region_receive(void)
{
	struct tek_thread *thread = tek__region.first;
	struct tek_taken taken;

	if (!tek__daemon_is_in_play())
		return;
	tek__daemon_listen();
	while (thread) {
		const bool is_out = tek__daemon_has_taken(&thread->member, &taken);
		const bool is_other = !is_out && goes_on(&thread->member);
		if (is_out) {
			follow_daemon(thread, &taken);
		} else if (is_other) {
			tek__region_settle(thread);
			tek__region_settle_group(thread->member.group);
		}
		/* Other threads may have left with it: begin again. */
		thread = is_out || is_other ? tek__region.first : thread->member.region_next;
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

	for (thread = tek__region.first; thread; thread = thread->member.region_next)
		if (thread->member.connection && !thread->member.paused)
			tek__effect_move(thread->tid, &thread->member);
}
