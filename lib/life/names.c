/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "life/names.h"

#include "base/clock.h"
#include "base/procfs.h"
#include "mediate/rules.h"
#include "stack/stack.h"
#include "threads/helper.h"
#include "threads/process.h"
#include "threads/record.h"
#include "threads/thread.h"

#include <string.h>

enum {
	PERIOD_MS = 50,
	MOST_PERIODS = 16, /* between two rounds, while nothing changes */
	NS_PER_MS = 1000000,
};

static uint64_t run_once(void);

static struct tek_helper helper = {
	.name = "tek-names",
	.stack_bytes = 64 * 1024,
	.run_once = run_once,
	.sleeps_until_ns = UINT64_MAX,
};
static unsigned int next;    /* number of the thread that is looked at next */
static unsigned int seen;    /* threads, in this round */
static bool changed;         /* in this round */
static bool was_alone;       /* one thread only, in the last round, and no other since */
static unsigned int periods; /* to the next round */
static bool refused;         /* it could not be made */

static bool is_inherited(const struct tek_thread *thread, const char *name)
{
	const struct tek_thread *creator = thread->birth.creator
						   ? tek__thread_known_tid(thread->birth.creator)
						   : NULL;

	if (!creator)
		creator = tek__thread_known_tid(tek__pid());
	return creator && creator != thread && strcmp(creator->kernel_name, name) == 0;
}

bool tek__names_note(struct tek_thread *thread, const char name[16])
{
	if (strcmp(thread->kernel_name, name) == 0)
		return false;
	const bool is_first = !thread->kernel_name[0];
	strncpy(thread->kernel_name, name, sizeof(thread->kernel_name) - 1);
	/* Of a first thread that rules do not ask for it is the program's. */
	if (!thread->named &&
	    (is_inherited(thread, name) || (is_first && thread->tid == tek__pid())))
		return false;
	const unsigned int generation = thread->generation;
	tek__thread_set_name(thread, name);
	tek__rules_apply(thread);
	if (thread->generation == generation)
		tek__stack_labelled(thread);
	return true;
}

/* One thread, then other threads may take the lock. */
static uint64_t run_once(void)
{
	char name[16];

	while (next < tek__thread_count()) {
		struct tek_thread *thread = tek__thread_at(next++);
		if (!thread || !thread->tid)
			continue;
		seen++;
		if (tek__procfs_thread_name(thread->tid, name))
			changed |= tek__names_note(thread, name);
		return 0;
	}
	periods = changed ? 1 : 2 * periods;
	if (periods > MOST_PERIODS)
		periods = MOST_PERIODS;
	const bool alone = seen <= 1 && !tek__threads_are_starting();
	next = seen = 0;
	changed = false;
	if (alone && was_alone)
		return TEK_HELPER_GOES;
	was_alone = alone;
	return tek__now(CLOCK_MONOTONIC) + (uint64_t)periods * PERIOD_MS * NS_PER_MS;
}

static void start(void)
{
	next = seen = 0;
	periods = 1;
	refused = tek__helper_start(&helper, SCHED_OTHER, 0) != 0;
}

void tek__names_start(void)
{
	if (!tek__rules_by_name || refused)
		return;
	was_alone = false;
	if (!helper.running) {
		start();
	} else if (periods > 1) {
		periods = 1;
		tek__helper_wake(&helper);
	}
}

bool tek__names_is(pid_t tid)
{
	return tek__helper_is(&helper, tid);
}

bool tek__names_let_go(pthread_t *handle)
{
	return tek__helper_let_go(&helper, handle);
}

void tek__names_forget(void)
{
	tek__helper_forget(&helper);
	refused = false;
}
