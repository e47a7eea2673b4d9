/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "life/fork.h"

#include "inherit/cond.h"
#include "inherit/inversion.h"
#include "inherit/waits.h"
#include "life/end.h"
#include "life/names.h"
#include "mediate/daemon.h"
#include "mediate/group.h"
#include "mediate/guard.h"
#include "mediate/region.h"
#include "mediate/rt.h"
#include "place/place.h"
#include "stack/stack.h"
#include "threads/process.h"
#include "threads/report.h"
#include "threads/scheduling.h"
#include "threads/table.h"
#include "threads/thread.h"

#include <pthread.h>

/* In fork(): the nice value of a Fast thread, for its child. Another one is held: region.h. */
enum { NICE_UNKNOWN = 100 };
static __thread int fork_nice __attribute__((tls_model("initial-exec"))) = NICE_UNKNOWN;
static __thread bool is_held __attribute__((tls_model("initial-exec")));

/* The child of a Fast thread begins with what its parent had before. */
static void inherit(const struct tek_thread *self)
{
	if (self && self->member.fast)
		tek__rt_inherit(0, &self->member.base,
				fork_nice == NICE_UNKNOWN ? tek__scheduling_nice(0) : fork_nice);
	fork_nice = NICE_UNKNOWN;
	is_held = false;
}

__attribute__((cold)) void tek__fork_begin_again(void)
{
	tek__process_begin_again();
	tek__table_forget();
	tek__guard_forget();
	tek__names_forget();
	tek__daemon_forget();
	tek__region_forget();
	tek__cond_forget();
	tek__waits_forget();
	tek__inversion_forget();
	tek__report_forget();
	inherit(tek__thread_known_self());
	tek__group_forget(tek__thread_known_self());
	tek__threads_forget();
	tek__stack_forget();
	tek__end_forget();
	tek__process_has_begun_again();
}

static void before_fork(void)
{
	struct tek_thread *self = tek__thread_known_self();
	const bool is_locked = self && tek__lock();

	if (is_locked)
		is_held = tek__region_hold(self);
	if (self && self->member.fast)
		fork_nice = tek__scheduling_nice(0);
	if (is_locked)
		tek__unlock();
	tek__place_before_fork();
}

static void after_fork(void)
{
	fork_nice = NICE_UNKNOWN;
	if (!is_held)
		return;
	is_held = false;
	if (!tek__lock())
		return;
	tek__region_resume(tek__thread_known_self());
	tek__unlock();
}

/* fork()'s own handler; another one may have needed us before it. */
static void after_fork_in_child(void)
{
	if (tek__process_is_interrupted()) {
		/* A signal handler interrupted TEK and forked: the child will return into it. */
		tek__table_make_private();
		tek__process_stand_down();
	}
	if (tek__process_stands_down())
		return;
	if (tek__process_is_new())
		tek__fork_begin_again();
	tek__place_again();
}

void tek__fork_start(void)
{
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}
