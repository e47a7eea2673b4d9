/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Masks of user-level threads. */
#include "uthread/posix/record.h"
#include "uthread/posix/router.h"
#include "uthread/posix/signal.h"
#include "uthread/reserved.h"
#include "uthread/worker.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UNBLOCKABLE \
	(tek_ut__signal_bit(SIGKILL) | tek_ut__signal_bit(SIGSTOP) | tek_ut__own_signals())

void tek_ut__signal_mask_is(uint64_t mask)
{
	struct tek_worker *worker = tek_ut__here_worker();

	tek_ut__here_self()->mask = mask;
	if (worker)
		worker->kernel_mask = mask;
}

void tek_ut__signal_mask_take(struct tek_uthread *thread)
{
	struct tek_posix *self = thread->posix;
	const uint64_t mask = thread->mask;

	self->taking = true;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
	self->taking = false;
}

static void change(struct tek_uthread *thread, uint64_t mask)
{
	if (mask == thread->mask)
		return;
	tek_ut__enter();
	tek_ut__signal_mask_is(mask);
	tek_ut__signal_mask_take(thread);
	tek_ut__leave();
}

void tek_ut__signal_mask_set(uint64_t mask)
{
	struct tek_uthread *thread = tek_ut__here_self();

	/* In a handler the tick is blocked, and stays so: action.h. */
	change(thread, (mask & ~UNBLOCKABLE) | (thread->mask & tek_ut__own_signals()));
	tek_ut__posix_resume(thread, false);
}

void tek_ut__signal_mask_jump(uint64_t mask, bool out)
{
	struct tek_uthread *thread = tek_ut__here_self();

	change(thread, (mask & ~UNBLOCKABLE) | (out ? 0 : thread->mask & tek_ut__own_signals()));
}

void tek_ut__signal_mask_with_own(int how, uint64_t signals)
{
	struct tek_uthread *thread = tek_ut__here_self();
	const uint64_t kernels = tek_ut__signal_bit(SIGKILL) | tek_ut__signal_bit(SIGSTOP);
	const uint64_t mask = how == SIG_BLOCK     ? thread->mask | signals
			      : how == SIG_UNBLOCK ? thread->mask & ~signals
						   : signals;

	change(thread, mask & ~kernels);
	tek_ut__posix_resume(thread, false);
}

void tek_ut__signal_mask_without_own(void)
{
	struct tek_uthread *thread = tek_ut__here_self();

	if (!tek_ut__posix_self()->frames)
		change(thread, thread->mask & ~tek_ut__own_signals());
}

int tek_ut__signal_mask(int how, const sigset_t *set, sigset_t *old)
{
	const uint64_t before = tek_ut__here_self()->mask;
	uint64_t mask = before;

	if (set) {
		const uint64_t signals = tek_ut__signals_of(set);
		switch (how) {
		case SIG_BLOCK:
			mask |= signals;
			break;
		case SIG_UNBLOCK:
			mask &= ~signals;
			break;
		case SIG_SETMASK:
			mask = signals;
			break;
		default:
			return EINVAL;
		}
		tek_ut__signal_mask_set(mask);
	}
	if (old)
		tek_ut__signals_to(old, before & ~tek_ut__own_signals());
	return 0;
}
