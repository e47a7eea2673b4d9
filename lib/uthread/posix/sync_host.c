/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions that libtek-sync.so needs where user-level threads use its locks
 * (base/sync_host.h). It finds this by its name.
 *
 * An unpark before the park counts, and only one does: it is stored in the thread, under its
 * interrupt_lock. So is the wait while there is one. The unparking thread accesses the wait under
 * the lock only: it is on a stack.
 */
#include "base/sync_host.h"
#include "base/export.h"

#include "uthread/posix/interrupt.h"
#include "uthread/wait.h"
#include "uthread/worker.h"

#include <errno.h>

/* So many yields in a row did not help: the holder has a lesser priority. */
#define YIELDS 16u

static void *self(void)
{
	return tek_ut__here_self();
}

static void yield(void)
{
	struct tek_uthread *thread = tek_ut__here_self();

	if (++thread->sync_yields % YIELDS == 0) {
		tek_ut__pause();
		return;
	}
	tek_ut__enter();
	tek_ut__yield(TEK_READY_YIELDED);
	tek_ut__leave();
}

/* Whether it has to wait. */
static bool begin(struct tek_uthread *thread, struct tek_waiter *waiter)
{
	tek_ut__enter();
	tek_ut__spin_lock(&thread->interrupt_lock);
	bool unparked = thread->sync_unparked;
	thread->sync_unparked = false;
	thread->sync_parked = unparked ? NULL : waiter;
	tek_ut__spin_unlock(&thread->interrupt_lock);
	tek_ut__leave();
	return !unparked;
}

static void end(struct tek_uthread *thread)
{
	tek_ut__enter();
	tek_ut__spin_lock(&thread->interrupt_lock);
	thread->sync_parked = NULL;
	tek_ut__spin_unlock(&thread->interrupt_lock);
	tek_ut__leave();
}

static int park(struct tek_until until)
{
	struct tek_uthread *thread = tek_ut__here_self();
	const struct timespec *deadline;
	struct tek_waiter waiter;
	struct timespec room;
	int error = tek__until_deadline(until, &room, &deadline);

	if (error)
		return error;
	tek_ut__waiter_init(&waiter);
	if (!begin(thread, &waiter))
		return 0;
	enum tek_wake how = tek_ut__wait_interruptible(&waiter, deadline, TEK_WAITS_OTHER);
	end(thread);
	if (how == TEK_INTERRUPTED)
		tek_ut__interrupted_by_signal();
	return how == TEK_TIMED_OUT ? ETIMEDOUT : 0;
}

static void unpark(void *of)
{
	struct tek_uthread *thread = of;

	tek_ut__enter();
	tek_ut__spin_lock(&thread->interrupt_lock);
	if (!thread->sync_parked || !tek_ut__wake(thread->sync_parked, TEK_WOKEN))
		thread->sync_unparked = true;
	tek_ut__spin_unlock(&thread->interrupt_lock);
	tek_ut__leave();
}

extern const struct tek_sync_host tek_sync_host;
TEK_EXPORT const struct tek_sync_host tek_sync_host = {
	.self = self,
	.yield = yield,
	.park = park,
	.unpark = unpark,
};
