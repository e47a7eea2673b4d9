/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The mask of signals that ppoll(2) and its kin set for as long as they wait.
 *
 * The kernel sets it and begins to wait at once, so that no signal can arrive in between and be
 * missed. Here a handler may run as soon as the mask is set, before the wait; its count shows that.
 */
#ifndef TEK_UTHREAD_POSIX_BLOCKED_MASK_H
#define TEK_UTHREAD_POSIX_BLOCKED_MASK_H

#include "uthread/posix/blocked.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

struct tek_blocked_mask {
	struct tek_handlers
		handlers;     /* from before it was set; none of these calls is begun again */
	const sigset_t *mask; /* NULL: the one that the thread has */
	sigset_t before;
};

static inline struct tek_blocked_mask tek_ut__blocked_mask_set(const sigset_t *mask)
{
	struct tek_blocked_mask set = {.handlers = tek_ut__handlers_from_here(false), .mask = mask};
	if (mask)
		pthread_sigmask(SIG_SETMASK, mask, &set.before);
	return set;
}

/* Returns the given result, and leaves errno as it is. */
static inline int tek_ut__blocked_mask_reset(const struct tek_blocked_mask *set, int result)
{
	int error = tek_ut__errno();
	if (set->mask)
		pthread_sigmask(SIG_SETMASK, &set->before, NULL);
	return result < 0 ? tek_ut__fail(error) : result;
}

#endif
