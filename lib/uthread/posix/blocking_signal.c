/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/blocking.h"

#include "uthread/posix/blocked.h"
#include "uthread/posix/interrupt.h"
#include "uthread/wait.h"

#include <errno.h>

int tek_ut__sigsuspend(const sigset_t *mask)
{
	const struct tek_handlers handlers = tek_ut__handlers_from_here(false);
	sigset_t before;

	tek_ut__cancel_point();
	/*
	 * Signals that this mask unblocks are handled at once, and end the wait before it begins.
	 */
	if (mask)
		pthread_sigmask(SIG_SETMASK, mask, &before);
	while (!tek_ut__handlers_came(&handlers)) {
		struct tek_waiter waiter;
		tek_ut__waiter_init(&waiter);
		tek_ut__wait_interruptible(&waiter, NULL, TEK_WAITS_SIGNAL);
		tek_ut__blocked_interrupted(&handlers);
	}
	if (mask)
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	return tek_ut__fail(EINTR);
}
