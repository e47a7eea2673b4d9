/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "threads/process.h"

#include "base/page.h"
#include "base/pi_lock.h"
#include "threads/hooks.h"
#include "threads/report.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static struct tek_pi_lock lock;
static pid_t pid;

/* The values that are restored when the holder releases the lock. */
static __thread int caller_errno __attribute__((tls_model("initial-exec")));
static __thread int caller_cancellation __attribute__((tls_model("initial-exec")));

/* TEK does nothing in this program, or any more. */
static atomic_bool stands_down;
static atomic_bool is_confined; /* because of a seccomp filter */

unsigned int tek__process_epoch;

/*
 * Before the first lock of this process: starts TEK, or begins again in the child of a fork. False:
 * TEK cannot work here (not started, stood down, or in the child of a vfork()).
 */
__attribute__((cold)) static bool get_to_know(void)
{
	if (!tek__hooks.start() || stands_down || tek__self_is_borrower())
		return false;
	if (tek__self_epoch() != tek__process_epoch)
		tek__hooks.begin_again();
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
	if (!tek__pi_lock_take(&lock)) {
		pthread_setcancelstate(saved_cancellation, NULL);
		return false;
	}
	/* While this thread waited for the lock a filter may have come. */
	if (stands_down) {
		tek__pi_lock_release(&lock);
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
	tek__pi_lock_release(&lock);
	tek__report_write(&noted);
}

void tek__unlock(void)
{
	/* Once the lock is free a signal handler may take it, and these with it. */
	int saved_errno = caller_errno, saved_cancellation = caller_cancellation;

	if (tek__report_pending())
		release_and_report();
	else
		tek__pi_lock_release(&lock);
	errno = saved_errno;
	pthread_setcancelstate(saved_cancellation, NULL);
}

void tek__lock_suspend(struct tek_held *held)
{
	*held = (struct tek_held){caller_errno, caller_cancellation};
	tek__pi_lock_release(&lock);
}

void tek__lock_resume(const struct tek_held *held)
{
	tek__pi_lock_take(&lock);
	caller_errno = held->error;
	caller_cancellation = held->cancellation;
}

bool tek__lock_brief(void)
{
	if (!tek__process_is_known() || stands_down || !tek__pi_lock_try(&lock))
		return false;
	if (!stands_down)
		return true;
	tek__pi_lock_release(&lock);
	return false;
}

void tek__unlock_brief(void)
{
	int cancellation;

	if (!tek__report_pending()) {
		tek__pi_lock_release(&lock);
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

void tek__process_begin(void)
{
	tek__self_start();
	tek__process_epoch = tek__self_epoch();
	tek__page_start();
	pid = getpid();
}

void tek__process_begin_again(void)
{
	lock.word = 0;
	tek__self_forget();
	pid = getpid();
}

void tek__process_has_begun_again(void)
{
	tek__process_epoch = tek__self_epoch();
}

bool tek__process_is_new(void)
{
	return tek__process_epoch == 0 || tek__self_epoch() != tek__process_epoch;
}

bool tek__process_is_interrupted(void)
{
	return tek__pi_lock_is_held(&lock);
}

void tek__process_stand_down(void)
{
	stands_down = true;
}

bool tek__process_stands_down(void)
{
	return stands_down;
}

void tek__process_confine(void)
{
	stands_down = true;
	atomic_store_explicit(&is_confined, true, memory_order_relaxed);
}

bool tek__is_confined(void)
{
	return atomic_load_explicit(&is_confined, memory_order_relaxed);
}

pid_t tek__pid(void)
{
	return pid;
}
