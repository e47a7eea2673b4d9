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

/*
 * A fork of the calling thread. One that is Fast before it hands on its base, also if its stay ends
 * meanwhile: the kernel copies the scheduling before the memory. Another one is held (region.h).
 */
static __thread struct {
	bool is_fast, is_held;
	struct tek_base base;
	int nice;
} forking __attribute__((tls_model("initial-exec")));

static void inherit(const struct tek_thread *self)
{
	if (forking.is_fast)
		tek__rt_inherit(0, &forking.base, forking.nice);
	else if (self && self->member.fast) /* without fork()'s handlers: _Fork() */
		tek__rt_inherit(0, &self->member.base, tek__scheduling_nice(0));
	forking.is_fast = forking.is_held = false;
}

__attribute__((cold)) void tek__fork_begin_again(void)
{
	int cancellation;

	/* The cancellation that may be pending is that of the parent's thread, too. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
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
	pthread_setcancelstate(cancellation, NULL);
}

static void before_fork(void)
{
	struct tek_thread *self = tek__thread_known_self();
	const bool is_locked = self && tek__lock();

	if (is_locked)
		/* |=: a signal handler of the thread may fork beside its fork. */
		forking.is_held |= tek__region_hold(self);
	forking.is_fast = self && self->member.fast;
	if (forking.is_fast) {
		forking.base = self->member.base;
		forking.nice = tek__scheduling_nice(0);
	}
	if (is_locked)
		tek__unlock();
	tek__place_before_fork();
}

static void after_fork(void)
{
	const bool is_held = forking.is_held;

	forking.is_fast = forking.is_held = false;
	if (!is_held || !tek__lock())
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
