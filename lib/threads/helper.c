/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "threads/helper.h"

#include "base/clock.h"
#include "base/futex.h"
#include "base/real.h"
#include "threads/hooks.h"
#include "threads/process.h"
#include "threads/thread.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>

/* No thread will join it. */
static void leave(struct tek_helper *helper)
{
	pthread_detach(pthread_self());
	helper->running = false;
}

/*
 * Whether the calling thread, a helper, goes on.  One that was let go may find that another has
 * taken its place.
 */
static bool goes_on(struct tek_helper *helper)
{
	if (!helper->running || !pthread_equal(helper->handle, pthread_self()))
		return false;
	if (tek__threads_left() || (helper->has_work && helper->has_work()))
		return true;
	leave(helper);
	return false;
}

/* No longer than to `until`; `seen` is the number of wake-ups known. */
static void sleep_until(struct tek_helper *helper, uint64_t until, unsigned int seen)
{
	const struct timespec deadline = {
		.tv_sec = (time_t)(until / TEK_NS_PER_SEC),
		.tv_nsec = (long)(until % TEK_NS_PER_SEC),
	};
	if (until)
		tek__futex_wait(&helper->wakeups, seen, until == UINT64_MAX ? NULL : &deadline);
}

static void *helper_main(void *argument)
{
	struct tek_helper *helper = argument;

	tek__c_library.prctl(PR_SET_NAME, helper->name);
	tek__hooks.helper_begins();
	for (;;) {
		unsigned int seen = atomic_load(&helper->wakeups);
		if (!tek__lock())
			return NULL;
		if (!goes_on(helper)) {
			tek__unlock();
			return NULL;
		}
		uint64_t until = helper->sleeps_until_ns = helper->turn();
		if (until == TEK_HELPER_GOES)
			leave(helper);
		tek__unlock();
		if (until == TEK_HELPER_GOES)
			return NULL;
		sleep_until(helper, until, seen);
	}
}

static size_t default_stack_bytes(void)
{
	pthread_attr_t attr;
	size_t bytes = 0;

	if (pthread_getattr_default_np(&attr) == 0) {
		pthread_attr_getstacksize(&attr, &bytes);
		pthread_attr_destroy(&attr);
	}
	return bytes;
}

static int create(struct tek_helper *helper, pthread_attr_t *attr)
{
	sigset_t all, before;
	clockid_t clock;

	/* The program's signals are for the program's threads. */
	sigfillset(&all);
	tek__c_library.pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = tek__c_library.pthread_create(&helper->handle, attr, helper_main, helper);
	if (error == EINVAL) {
		/* A program with much thread-local storage; that lies on the stack too. */
		pthread_attr_setstacksize(attr, default_stack_bytes());
		error = tek__c_library.pthread_create(&helper->handle, attr, helper_main, helper);
	}
	/* It cannot end before we release the lock, so the handle is valid here. */
	if (!error && pthread_getcpuclockid(helper->handle, &clock) == 0)
		helper->tid = tek__tid_of_cpu_clock(clock);
	tek__c_library.pthread_sigmask(SIG_SETMASK, &before, NULL);
	helper->running = error == 0;
	return error;
}

__attribute__((cold)) int tek__helper_start(struct tek_helper *helper, int policy, int priority)
{
	const struct sched_param param = {.sched_priority = priority};
	pthread_attr_t attr;

	if (helper->running)
		return 0;
	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	tek__c_library.pthread_attr_setschedpolicy(&attr, policy);
	tek__c_library.pthread_attr_setschedparam(&attr, &param);
	pthread_attr_setstacksize(&attr, helper->stack_bytes);
	int error = create(helper, &attr);
	pthread_attr_destroy(&attr);
	return error;
}

void tek__helper_wake(struct tek_helper *helper)
{
	atomic_fetch_add(&helper->wakeups, 1);
	tek__futex_wake_all(&helper->wakeups);
}

bool tek__helper_let_go(struct tek_helper *helper, pthread_t *handle)
{
	if (!helper->running || (helper->has_work && helper->has_work()))
		return false;
	*handle = helper->handle;
	helper->running = false;
	tek__helper_wake(helper);
	return true;
}

void tek__helper_forget(struct tek_helper *helper)
{
	helper->running = false;
	helper->sleeps_until_ns = UINT64_MAX;
}
