/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A ticket lock with proportional back-off: the more waiters are before it, the more rarely a
 * waiter polls.
 *
 * J. M. Mellor-Crummey, M. L. Scott: Algorithms for Scalable Synchronization (1991), 2.2.
 */
#include "sync/lock.h"
#include "sync/poll.h"
#include "sync/ticket.h"
#include "sync/waiting.h"

/*
 * Spin iterations for each waiter before the next one; the next one itself polls at each iteration.
 */
#define ITERATIONS_EACH 4

/* A function of its own, so that an uncontended lock saves no registers. */
static __attribute__((noinline)) void back_off(struct tek_lock *lock, uintptr_t ticket)
{
	struct tek_spinning spinning = {0};
	uintptr_t served;

	while (tek_sync__ticket_is_before(served = tek_sync__ticket_served(lock), ticket))
		for (uintptr_t i = 0; i < 1 + (ticket - served - 1) * ITERATIONS_EACH; i++)
			tek_sync__spin(&spinning);
}

static int lock(struct tek_lock *lock)
{
	const uintptr_t ticket = tek_sync__ticket_take(lock);

	if (tek_sync__ticket_is_before(tek_sync__ticket_served(lock), ticket))
		back_off(lock, ticket);
	tek_sync__ticket_begin(lock);
	return 0;
}

/* A ticket cannot be returned. */
static int lock_until(struct tek_lock *lock, struct tek_until until)
{
	return tek_sync__poll_until(lock, tek_sync__ticket_try, until);
}

const struct tek_lock_kind tek_sync__lock_ticket_pb = {
	.name = "ticket-pb",
	.fifo = true,
	.lock = lock,
	.try = tek_sync__ticket_try,
	.lock_until = lock_until,
	.unlock = tek_sync__ticket_unlock,
	.is_locked = tek_sync__ticket_is_taken,
};
