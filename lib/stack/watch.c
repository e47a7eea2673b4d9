/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/watch.h"

#include "base/clock.h"
#include "stack/config.h"
#include "stack/stack.h"
#include "threads/helper.h"
#include "threads/process.h"
#include "threads/thread.h"

enum {
	MOST_PERIODS = 16, /* between two rounds, while nothing changes */
	NS_PER_MS = 1000000,
};

static uint64_t run_once(void);

static struct tek_helper helper = {
	.name = "tek-stack",
	.stack_bytes = 64 * 1024,
	.run_once = run_once,
	.sleeps_until_ns = UINT64_MAX,
};
static unsigned int next;     /* number of the thread that is looked at next */
static bool changed;          /* in this round */
static unsigned int seen;     /* threads, in this round */
static bool was_alone;        /* one thread only, in the last round, and no other since */
static unsigned int periods;  /* to the next one */
static uint64_t began_cpu_ns; /* the CPU time of the helper at the begin of this round */
static bool refused;          /* it could not be made */

/* One thread, then other threads may take the lock. */
static uint64_t run_once(void)
{
	if (next == 0)
		began_cpu_ns = tek__now(CLOCK_THREAD_CPUTIME_ID);
	while (next < tek__thread_count()) {
		struct tek_thread *thread = tek__thread_at(next++);
		if (thread && thread->tid) {
			seen++;
			changed |= tek__stack_check(thread);
			return 0;
		}
	}
	periods = changed ? 1 : 2 * periods;
	if (periods > MOST_PERIODS)
		periods = MOST_PERIODS;
	next = 0;
	changed = false;
	bool alone = seen <= 1 && !tek__threads_are_starting();
	seen = 0;
	if (alone && was_alone)
		return TEK_HELPER_GOES;
	was_alone = alone;
	if (alone)
		periods = 1;
	return tek__due_after_rest(
		began_cpu_ns, tek__now(CLOCK_MONOTONIC) +
				      (uint64_t)periods * tek__stack_config.period_ms * NS_PER_MS);
}

static void start(void)
{
	next = seen = 0;
	periods = 1;
	refused = tek__helper_start(&helper, SCHED_OTHER, 0) != 0;
}

void tek__watch_start(void)
{
	was_alone = false;
	if (!helper.running && !refused && tek__stack_config.period_ms)
		start();
}

bool tek__watch_is(pid_t tid)
{
	return tek__helper_is(&helper, tid);
}

bool tek__watch_let_go(pthread_t *handle)
{
	return tek__helper_let_go(&helper, handle);
}

void tek__watch_forget(void)
{
	tek__helper_forget(&helper);
	refused = false;
}
