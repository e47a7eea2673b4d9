/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/cancel.h"

#include "uthread/posix/exit.h"
#include "uthread/posix/interrupt.h"
#include "uthread/posix/signal.h"
#include "uthread/wait.h"
#include "uthread/worker.h"

#include <errno.h>
#include <pthread.h>

bool tek_ut__cancel_is_due(void)
{
	const struct tek_posix *self = tek_ut__posix_self();

	return self && tek_ut__cancel_is_due_for(tek_ut__posix_flags(self));
}

void tek_ut__cancel_point(void)
{
	if (__builtin_expect(tek_ut__cancel_is_due(), 0))
		tek_ut__posix_exit(PTHREAD_CANCELED);
}

void tek_ut__cancel(struct tek_posix *posix)
{
	unsigned int old = atomic_fetch_or(&posix->flags, TEK_POSIX_CANCELLED);

	if (old & (TEK_POSIX_CANCELLED | TEK_POSIX_EXITING))
		return;
	if (posix == tek_ut__posix_self()) {
		if (tek_ut__cancel_is_due_at_once(tek_ut__posix_flags(posix)))
			tek_ut__cancel_point();
		return;
	}
	if (!(old & TEK_POSIX_DISABLED))
		tek_ut__posix_attention(posix);
}

/*
 * Sets or clears one of the flags, and acts on a cancellation that is due then. Returns the old
 * ones.
 */
static unsigned int set_flag(unsigned int flag, bool set)
{
	struct tek_posix *self = tek_ut__posix_self();
	unsigned int old = set ? atomic_fetch_or(&self->flags, flag)
			       : atomic_fetch_and(&self->flags, ~flag);

	if (tek_ut__cancel_is_due_at_once(tek_ut__posix_flags(self)))
		tek_ut__cancel_point();
	return old;
}

int tek_ut__cancel_set_state(int state, int *old)
{
	if (state != PTHREAD_CANCEL_ENABLE && state != PTHREAD_CANCEL_DISABLE)
		return EINVAL;
	unsigned int flags = set_flag(TEK_POSIX_DISABLED, state == PTHREAD_CANCEL_DISABLE);
	if (old)
		*old = flags & TEK_POSIX_DISABLED ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE;
	return 0;
}

int tek_ut__cancel_set_type(int type, int *old)
{
	if (type != PTHREAD_CANCEL_DEFERRED && type != PTHREAD_CANCEL_ASYNCHRONOUS)
		return EINVAL;
	unsigned int flags = set_flag(TEK_POSIX_ASYNC, type == PTHREAD_CANCEL_ASYNCHRONOUS);
	if (old)
		*old = flags & TEK_POSIX_ASYNC ? PTHREAD_CANCEL_ASYNCHRONOUS
					       : PTHREAD_CANCEL_DEFERRED;
	return 0;
}
