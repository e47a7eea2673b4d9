/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A ticket lock with exponential back-off: a waiter takes a number, and polls ever more rarely
 * whether it is served. The paper's BACKOFF, which Linux had on TILE-Gx
 * (rtos-linux-scalability-2018, 3.1.5).
 *
 * J. M. Mellor-Crummey, M. L. Scott: Algorithms for Scalable Synchronization (1991), 2.2.
 */
#include "sync/lock.h"
#include "sync/poll.h"
#include "sync/ticket.h"
#include "sync/waiting.h"

/*
 * Spin iterations between two polls. A late poll delays all later waiters, so it stays short, and
 * the first looks are many: where the holder has the lock for moments only, a look that takes some
 * cycles more than need be is much.
 */
#define POLLS_BEFORE 32
#define ITERATIONS_MAX 16

static __attribute__((noinline)) void back_off(struct tek_lock *lock, uintptr_t ticket)
{
	struct tek_spinning spinning = {0};

	for (unsigned int iterations = 2;
	     tek_sync__ticket_is_before(tek_sync__ticket_served(lock), ticket);) {
		for (unsigned int i = 0; i < iterations; i++)
			tek_sync__spin(&spinning);
		if (iterations < ITERATIONS_MAX)
			iterations *= 2;
	}
}

static int lock(struct tek_lock *lock)
{
	const uintptr_t ticket = tek_sync__ticket_take(lock);

	for (unsigned int polls = 0;
	     tek_sync__ticket_is_before(tek_sync__ticket_served(lock), ticket); polls++) {
		if (polls == POLLS_BEFORE) {
			back_off(lock, ticket);
			break;
		}
		tek_sync__iterate();
	}
	tek_sync__ticket_begin(lock);
	return 0;
}

/* A ticket cannot be returned. */
static int lock_until(struct tek_lock *lock, struct tek_until until)
{
	return tek_sync__poll_until(lock, tek_sync__ticket_try, until);
}

const struct tek_lock_kind tek_sync__lock_ticket = {
	.name = "ticket",
	.fifo = true,
	.lock = lock,
	.try = tek_sync__ticket_try,
	.lock_until = lock_until,
	.unlock = tek_sync__ticket_unlock,
	.is_locked = tek_sync__ticket_is_taken,
};
