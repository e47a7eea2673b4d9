/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/watch.h"

#include "ident/clock.h"
#include "ident/helper.h"
#include "ident/process.h"
#include "ident/record.h"
#include "ident/thread.h"
#include "preload/real.h"
#include "stack/config.h"
#include "stack/measure.h"
#include "stack/stack.h"

enum {
	STACK_BYTES = 64 * 1024,
	MOST_PERIODS = 16, /* between two rounds, while nothing changes */
	/* What an earlier thread may have left on a stack that was not looked at beforehand. */
	LEFTOVER_BYTES = 64 * 1024,
	NS_PER_MS = 1000000,
};

static uint64_t turn(void);

static struct tek_helper helper = {
	.name = "tek-stack",
	.turn = turn,
	.sleeps_until_ns = UINT64_MAX,
};
static unsigned int next;    /* number of the thread that is looked at next */
static bool changed;         /* in this round */
static unsigned int periods; /* to the next one */
static bool refused;         /* it could not be made */

/* Whether what is found can be told from what an earlier thread left there. */
static bool is_news(const struct tek_stack *stack, const struct tek_stack_use *use)
{
	if (!__atomic_load_n(&stack->clean_end, __ATOMIC_ACQUIRE) &&
	    (stack->measured || use->bound_bytes <= LEFTOVER_BYTES))
		return false;
	return use->peak_bytes > stack->use.peak_bytes ||
	       use->bound_bytes != stack->use.bound_bytes;
}

static void look_at(struct tek_thread *thread)
{
	const struct tek_stack_use before = thread->stack.use;
	struct tek_stack_use use;

	if (!tek__thread_exists(thread)) {
		tek__stack_gone(thread);
		tek__thread_free(thread);
		return;
	}
	if (!tek__stack_locate_other(thread) || !tek__measure_other(&thread->stack, &use) ||
	    !is_news(&thread->stack, &use))
		return;
	tek__stack_measured(thread, &use);
	if (before.peak_bytes == thread->stack.use.peak_bytes &&
	    before.bound_bytes == thread->stack.use.bound_bytes)
		return;
	changed = true;
	tek__thread_publish(thread);
}

void tek__watch_last(void)
{
	for (unsigned int i = 0; tek__stack_is_on() && i < tek__thread_count(); i++) {
		struct tek_thread *thread = tek__thread_at(i);
		if (thread && thread->tid)
			look_at(thread);
	}
}

/* One thread, then others may have the lock. */
static uint64_t turn(void)
{
	while (next < tek__thread_count()) {
		struct tek_thread *thread = tek__thread_at(next++);
		if (thread && thread->tid) {
			look_at(thread);
			return 0;
		}
	}
	periods = changed ? 1 : 2 * periods;
	if (periods > MOST_PERIODS)
		periods = MOST_PERIODS;
	next = 0;
	changed = false;
	return tek__now(CLOCK_MONOTONIC) +
	       (uint64_t)periods * tek__stack_config.period_ms * NS_PER_MS;
}

/* Not as its creator, which may be Fast. */
__attribute__((cold, noinline)) static void start(void)
{
	const struct sched_param none = {.sched_priority = 0};
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	tek__real.pthread_attr_setschedpolicy(&attr, SCHED_OTHER);
	tek__real.pthread_attr_setschedparam(&attr, &none);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	next = 0;
	periods = 1;
	refused = tek__helper_start(&helper, &attr) != 0;
	pthread_attr_destroy(&attr);
}

void tek__watch_start(void)
{
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
