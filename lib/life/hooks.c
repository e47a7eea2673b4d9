/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "threads/hooks.h"

#include "inherit/cond.h"
#include "inherit/inversion.h"
#include "inherit/mutex.h"
#include "inherit/waits.h"
#include "life/end.h"
#include "life/fork.h"
#include "life/names.h"
#include "life/start.h"
#include "mediate/config.h"
#include "mediate/guard.h"
#include "mediate/region.h"
#include "mediate/rules.h"
#include "place/place.h"
#include "stack/stack.h"
#include "stack/watch.h"

static bool is_helper(pid_t tid)
{
	return tek__guard_is(tid) || tek__watch_is(tid) || tek__names_is(tid);
}

static void leave_region(struct tek_thread *thread)
{
	tek__cond_abandon(thread);
	tek__inversion_thread_ends(thread);
	tek__region_remove(thread);
}

const struct tek_hooks tek__hooks = {
	.start = tek__start,
	.begin_again = tek__fork_begin_again,
	.first_group = &tek__config.group,
	.is_helper = is_helper,
	.helper_begins = tek__place_leave,
	.watch_end = tek__end_watch,
	.locate_stack = tek__stack_locate,
	.adopted = tek__rules_apply,
	.set_group = tek__region_set_group,
	.leave_region = leave_region,
	.region_begins = tek__inherit_begin,
	.waits_changed = tek__waits_review,
	.waits_are_over = tek__cond_check,
	.stack_gone = tek__stack_gone,
	.release_stack = tek__stack_release,
};
