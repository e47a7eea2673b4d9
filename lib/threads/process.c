/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "threads/process.h"

#include "base/page.h"
#include "base/pi_lock.h"
#include "base/program.h"
#include "base/real.h"
#include "base/sanitizer.h"
#include "exec/target.h"
#include "life/end.h"
#include "life/keys.h"
#include "life/names.h"
#include "mediate/attr.h"
#include "mediate/config.h"
#include "mediate/daemon.h"
#include "mediate/guard.h"
#include "mediate/region.h"
#include "mediate/rules.h"
#include "place/place.h"
#include "stack/stack.h"
#include "threads/report.h"
#include "threads/table.h"
#include "threads/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The state of the start: 0 before it, the tid of the thread that performs it, STARTED after it. */
#define STARTED (-1)
static atomic_int started;
static struct tek_lock lock;
static pid_t pid;

/* The values that are restored when the holder releases the lock. */
static __thread int caller_errno __attribute__((tls_model("initial-exec")));
static __thread int caller_cancellation __attribute__((tls_model("initial-exec")));

/* TEK does nothing in this program, or any more. */
static atomic_bool stands_down;
static atomic_bool is_confined; /* because of a seccomp filter */

unsigned int tek__process_epoch;

/* In the child of a fork: the parent's threads, table and guard are not ours. */
__attribute__((cold)) static void begin_again(void)
{
	lock.word = 0;
	tek__self_forget();
	pid = getpid();
	tek__table_forget();
	tek__guard_forget();
	tek__names_forget();
	tek__daemon_forget();
	tek__region_forget();
	tek__report_forget();
	tek__threads_forget();
	tek__stack_forget();
	tek__end_forget();
	tek__process_epoch = tek__self_epoch();
}

static void before_fork(void)
{
	tek__thread_before_fork();
	tek__place_before_fork();
}

/* fork()'s own handler; another one may have needed us before it. */
static void after_fork_in_child(void)
{
	if (tek__lock_is_held(&lock)) {
		/* A signal handler interrupted TEK and forked: the child will return into it. */
		tek__table_make_private();
		stands_down = true;
	}
	if (stands_down)
		return;
	if (tek__process_epoch == 0 || tek__self_epoch() != tek__process_epoch)
		begin_again();
	tek__place_again();
}

/* These have allocators of their own, beside which another one crashes. */
static void know_allocators(void)
{
	const char *alloc = secure_getenv("TEK_ALLOC");

	if (!alloc || !*alloc || strcmp(alloc, "glibc") == 0)
		return;
	tek__target_disturbs("libtsan.", "is built with ThreadSanitizer");
	tek__target_disturbs("liblsan.", "is built with LeakSanitizer");
	tek__target_disturbs("libhwasan.", "is built with HWAddressSanitizer");
}

static void start(void)
{
	tek__self_start();
	tek__process_epoch = tek__self_epoch();
	tek__page_start();
	pid = getpid();
	tek__sanitizer_start();
	tek__real_find();
	tek__keys_start();
	tek__attr_start();
	tek__target_start();
	know_allocators();
	stands_down = !tek__end_start();
	tek__threads_start();
	tek__report_start();
	tek__config_read();
	tek__rules_read();
	tek__place_start();
	tek__stack_start();
	if (tek__sanitizer_in_program()) {
		stands_down = true;
		tek__report_not_covered(__progname_full, "is built with a sanitizer");
	}
	pthread_atfork(before_fork, tek__thread_after_fork, after_fork_in_child);
}

/*
 * Waits a moment for the thread that performs the start.  A child of fork() does not have that
 * thread, and starts anew.
 */
static void await_start(int starter)
{
	const struct timespec moment = {.tv_nsec = 100000};
	const int saved = errno;

	if (syscall(SYS_tgkill, getpid(), starter, 0) == 0)
		syscall(SYS_nanosleep, &moment, NULL);
	else
		atomic_compare_exchange_strong(&started, &starter, 0);
	errno = saved;
}

__attribute__((cold, noinline)) static bool begin_or_wait(void)
{
	const int self = (int)syscall(SYS_gettid);

	for (;;) {
		int found = 0;
		if (atomic_compare_exchange_strong(&started, &found, self)) {
			start();
			atomic_store_explicit(&started, STARTED, memory_order_release);
			return true;
		}
		if (found == STARTED)
			return true;
		if (found == self)
			return false;
		await_start(found);
	}
}

bool tek__start(void)
{
	return atomic_load_explicit(&started, memory_order_acquire) == STARTED || begin_or_wait();
}

/* What has to be seen to first when anything is new. False: nothing here is the caller's own. */
__attribute__((cold)) static bool get_to_know(void)
{
	if (!tek__start() || stands_down || tek__self_is_borrower())
		return false;
	if (tek__self_epoch() != tek__process_epoch)
		begin_again();
	return true;
}

bool tek__lock(void)
{
	int saved_errno = errno, saved_cancellation;

	if (!tek__process_is_known() && !get_to_know())
		return false;
	if (stands_down)
		return false;
	/* The code under the lock includes cancellation points such as open(2). */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &saved_cancellation);
	if (!tek__lock_take(&lock)) {
		pthread_setcancelstate(saved_cancellation, NULL);
		return false;
	}
	/* While this thread waited for the lock a filter may have come. */
	if (stands_down) {
		tek__lock_release(&lock);
		pthread_setcancelstate(saved_cancellation, NULL);
		return false;
	}
	caller_errno = saved_errno;
	caller_cancellation = saved_cancellation;
	return true;
}

__attribute__((cold)) static void release_and_report(void)
{
	struct tek_noted noted;

	tek__report_take(&noted);
	tek__lock_release(&lock);
	tek__report_write(&noted);
}

void tek__unlock(void)
{
	/* Once the lock is free a signal handler may take it, and these with it. */
	int saved_errno = caller_errno, saved_cancellation = caller_cancellation;

	if (tek__report_pending())
		release_and_report();
	else
		tek__lock_release(&lock);
	errno = saved_errno;
	pthread_setcancelstate(saved_cancellation, NULL);
}

bool tek__lock_brief(void)
{
	if (!tek__process_is_known() || stands_down || !tek__lock_try(&lock))
		return false;
	if (!stands_down)
		return true;
	tek__lock_release(&lock);
	return false;
}

void tek__unlock_brief(void)
{
	int cancellation;

	if (!tek__report_pending()) {
		tek__lock_release(&lock);
		return;
	}
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
	release_and_report();
	pthread_setcancelstate(cancellation, NULL);
}

enum tek_locked tek__lock_either(void)
{
	if (tek__lock_brief())
		return TEK_LOCKED_BRIEFLY;
	return tek__lock() ? TEK_LOCKED : TEK_NOT_LOCKED;
}

void tek__unlock_either(enum tek_locked locked)
{
	if (locked == TEK_LOCKED)
		tek__unlock();
	else if (locked == TEK_LOCKED_BRIEFLY)
		tek__unlock_brief();
}

static void stand_down(void)
{
	stands_down = true;
	atomic_store_explicit(&is_confined, true, memory_order_relaxed);
}

void tek__confine(const char *call)
{
	if (!tek__lock()) {
		stand_down();
		return;
	}
	tek__region_end();
	tek__place_withdraw();
	tek__report_confined(call);
	/* Before the lock is free: a thread that waits for it checks again. */
	stand_down();
	tek__unlock();
}

bool tek__is_confined(void)
{
	return atomic_load_explicit(&is_confined, memory_order_relaxed);
}

pid_t tek__pid(void)
{
	return pid;
}

/* The program's own constructors and main() come later. */
__attribute__((constructor)) static void constructor(void)
{
	tek__start();
	tek__table_remove_stale();
	tek__place_main();
	tek__rules_main_thread();
}

__attribute__((destructor)) static void destructor(void)
{
	/* A program that never needed TEK ends without it, in whatever sandbox it is by now. */
	if (!tek__table_header() || !tek__lock())
		return;
	tek__region_summarise();
	tek__stack_finish();
	tek__table_end();
	tek__unlock();
}
