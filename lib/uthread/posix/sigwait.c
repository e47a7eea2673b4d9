/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sigwait(3) and its kin. The thread first stores the awaited signals, and then checks for one. A
 * thread that sends one to it, or routes one of the process (router.h), does so in the other order:
 * one sees the other.
 */
#include "base/clock.h"
#include "uthread/posix/interrupt.h"
#include "uthread/posix/signal.h"
#include "uthread/reserved.h"
#include "uthread/wait.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool take(uint64_t wanted, siginfo_t *info)
{
	static const struct timespec at_once;

	return tek_ut__signal_take(wanted, info) ||
	       syscall(SYS_rt_sigtimedwait, &wanted, info, &at_once, sizeof(wanted)) > 0;
}

/* 0 or an error number. */
static int wait_for(struct tek_posix *self, uint64_t wanted, siginfo_t *info,
		    const struct timespec *deadline)
{
	for (;;) {
		const unsigned long handlers = self->handlers;
		atomic_store(&self->awaited, wanted);
		bool taken = take(wanted, info);
		struct tek_waiter waiter;
		tek_ut__waiter_init(&waiter);
		enum tek_wake how = taken ? TEK_WOKEN
					  : tek_ut__wait_interruptible(&waiter, deadline,
								       TEK_WAITS_SIGNAL);
		atomic_store(&self->awaited, 0);
		if (taken || take(wanted, info))
			return 0;
		if (how == TEK_TIMED_OUT)
			return EAGAIN;
		tek_ut__interrupted();
		if (self->handlers != handlers)
			return EINTR;
	}
}

int tek_ut__signal_wait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
	struct timespec room, *deadline = NULL;
	siginfo_t ours;

	if (timeout) {
		if (timeout->tv_nsec < 0 || timeout->tv_nsec >= 1000000000L) {
			errno = EINVAL;
			return -1;
		}
		uint64_t now = tek__now(CLOCK_MONOTONIC), left = tek__ns_of(timeout);
		room = tek__timespec_of(left < INT64_MAX - now ? now + left : INT64_MAX);
		deadline = &room;
	}
	tek_ut__cancel_point();
	int error = wait_for(tek_ut__posix_self(), tek_ut__signals_of(set) & ~tek_ut__own_signals(),
			     info ? info : &ours, deadline);
	if (error) {
		errno = error;
		return -1;
	}
	return info ? info->si_signo : ours.si_signo;
}
