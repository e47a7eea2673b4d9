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

static void *helper_main(struct tek_helper *helper)
{
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
		uint64_t until = helper->sleeps_until_ns = helper->run_once();
		if (until == TEK_HELPER_GOES)
			leave(helper);
		tek__unlock();
		if (until == TEK_HELPER_GOES)
			return NULL;
		sleep_until(helper, until, seen);
	}
}

/* A new thread, until its creator has decided whether it becomes the helper. On its stack. */
struct candidate {
	struct tek_helper *helper;
	void (*with)(pid_t); /* of a trial; NULL: it is none */
	pthread_t handle;
	pid_t tid;
	atomic_uint verdict;
	atomic_uint has_read; /* the thread does not use this structure any more */
};
enum { UNDECIDED, ADMITTED, DISMISSED };

static void await_end(pid_t tid)
{
	enum { MOST_CHECKS = 100, CHECK_NS = 50000 };
	const struct timespec pause = {.tv_nsec = CHECK_NS};

	for (int i = 0; i < MOST_CHECKS && syscall(SYS_tgkill, tek__pid(), tid, 0) == 0; i++)
		syscall(SYS_nanosleep, &pause, NULL);
}

static void *candidate_main(void *argument)
{
	struct candidate *candidate = argument;
	struct tek_helper *helper = candidate->helper;
	unsigned int verdict;

	while ((verdict = atomic_load(&candidate->verdict)) == UNDECIDED)
		tek__futex_wait(&candidate->verdict, UNDECIDED, NULL);
	if (verdict == DISMISSED)
		return NULL;
	atomic_store(&candidate->has_read, 1);
	tek__futex_wake_all(&candidate->has_read);
	return helper_main(helper);
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

static int create(struct candidate *candidate, int policy, int priority)
{
	const struct sched_param param = {.sched_priority = priority};
	pthread_attr_t attr;
	clockid_t clock;

	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	tek__c_library.pthread_attr_setschedpolicy(&attr, policy);
	tek__c_library.pthread_attr_setschedparam(&attr, &param);
	pthread_attr_setstacksize(&attr, candidate->helper->stack_bytes);
	int error = tek__c_library.pthread_create(&candidate->handle, &attr, candidate_main,
						  candidate);
	if (error == EINVAL) {
		/* A program with much thread-local storage; that lies on the stack too. */
		pthread_attr_setstacksize(&attr, default_stack_bytes());
		error = tek__c_library.pthread_create(&candidate->handle, &attr, candidate_main,
						      candidate);
	}
	pthread_attr_destroy(&attr);
	/* It waits for the verdict, so the handle is valid here. */
	if (!error && pthread_getcpuclockid(candidate->handle, &clock) == 0)
		candidate->tid = tek__tid_of_cpu_clock(clock);
	return error;
}

/* Returns when the thread goes on without its candidate, or has ended. Without the lock. */
static void decide(struct candidate *candidate, unsigned int verdict)
{
	atomic_store(&candidate->verdict, verdict);
	tek__futex_wake_all(&candidate->verdict);
	if (verdict == DISMISSED) {
		pthread_join(candidate->handle, NULL);
		/* The kernel still counts a thread for a while after it was joined. */
		await_end(candidate->tid);
		return;
	}
	while (!atomic_load(&candidate->has_read))
		tek__futex_wait(&candidate->has_read, 0, NULL);
}

/* Needs the lock. Returns whether the candidate becomes the helper. */
static bool admit(const struct candidate *candidate)
{
	struct tek_helper *helper = candidate->helper;

	if (candidate->with)
		candidate->with(candidate->tid);
	if (candidate->with || helper->running)
		return false; /* a trial, or another thread was faster */
	helper->handle = candidate->handle;
	helper->tid = candidate->tid;
	helper->running = true;
	return true;
}

/*
 * The C library allocates memory for a thread. The program's allocator may hold a lock of its own
 * while it waits for ours, so the thread is made without ours.
 */
__attribute__((cold)) static int make(struct candidate *candidate, int policy, int priority)
{
	sigset_t all, before;
	int cancellation;
	struct tek_held held;

	/* The program's signals are for the program's threads. */
	sigfillset(&all);
	tek__c_library.pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
	tek__lock_suspend(&held);
	int error = create(candidate, policy, priority);
	if (!error) {
		tek__lock_resume(&held);
		bool admitted = !tek__process_stands_down() && admit(candidate);
		tek__lock_suspend(&held);
		decide(candidate, admitted ? ADMITTED : DISMISSED);
	}
	tek__lock_resume(&held);
	pthread_setcancelstate(cancellation, NULL);
	tek__c_library.pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error ? error : tek__process_stands_down() ? EAGAIN : 0;
}

int tek__helper_start(struct tek_helper *helper, int policy, int priority)
{
	struct candidate candidate = {.helper = helper};

	return helper->running ? 0 : make(&candidate, policy, priority);
}

int tek__helper_try(struct tek_helper *helper, int policy, int priority, void (*with)(pid_t))
{
	struct candidate candidate = {.helper = helper, .with = with};

	return make(&candidate, policy, priority);
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
