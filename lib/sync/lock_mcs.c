/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * MCS: a queue; each who waits spins at a node of its own, which the one before it writes once.
 *
 * J. M. Mellor-Crummey, M. L. Scott: Algorithms for Scalable Synchronization (1991), 2.4.
 *
 *	first	the last of the queue, the holder's node included; NULL: it is free
 *	second	the holder's node, for its unlock
 */
#include "sync/lock.h"
#include "sync/mcs_node.h"
#include "sync/poll.h"
#include "sync/waiting.h"

static void is_mine(struct tek_lock *lock, struct tek_mcs_node *node)
{
	atomic_store_explicit(&lock->second, (uintptr_t)node, memory_order_relaxed);
}

/*
 * The exchange releases the node's content to who comes next, and acquires that of the one before; or it acquires the
 * lock from the exchange that has released it.
 */
static void lock(struct tek_lock *lock)
{
	struct tek_spinning spinning = {0};
	struct tek_mcs_node *node = tek__mcs_node_take();

	atomic_store_explicit(&node->next, NULL, memory_order_relaxed);
	atomic_store_explicit(&node->waits, 1, memory_order_relaxed);
	struct tek_mcs_node *before = (struct tek_mcs_node *)atomic_exchange_explicit(
		&lock->first, (uintptr_t)node, memory_order_acq_rel);
	if (before) {
		atomic_store_explicit(&before->next, node, memory_order_release);
		while (atomic_load_explicit(&node->waits, memory_order_acquire))
			tek__spin(&spinning);
	}
	is_mine(lock, node);
}

static bool try(struct tek_lock *lock)
{
	uintptr_t last = 0;

	if (atomic_load_explicit(&lock->first, memory_order_relaxed) != 0)
		return false;
	struct tek_mcs_node *node = tek__mcs_node_take();
	atomic_store_explicit(&node->next, NULL, memory_order_relaxed);
	if (!atomic_compare_exchange_strong_explicit(&lock->first, &last, (uintptr_t)node,
						     memory_order_acq_rel, memory_order_relaxed)) {
		tek__mcs_node_give(node);
		return false;
	}
	is_mine(lock, node);
	return true;
}

/* Nobody can leave the queue. */
static int lock_until(struct tek_lock *lock, struct tek_until until)
{
	return tek__poll_until(lock, try, until);
}

/* The node stays the holder's until nobody can find it any more; the lock is not touched after it was let go. */
static void unlock(struct tek_lock *lock)
{
	struct tek_spinning spinning = {0};
	struct tek_mcs_node *node = (struct tek_mcs_node *)atomic_load_explicit(
		&lock->second, memory_order_relaxed);
	uintptr_t last = (uintptr_t)node;
	struct tek_mcs_node *next = atomic_load_explicit(&node->next, memory_order_acquire);

	if (!next && !atomic_compare_exchange_strong_explicit(
			     &lock->first, &last, 0, memory_order_release, memory_order_relaxed))
		while (!(next = atomic_load_explicit(&node->next, memory_order_acquire)))
			tek__spin(&spinning);
	if (next)
		atomic_store_explicit(&next->waits, 0, memory_order_release);
	tek__mcs_node_give(node);
}

const struct tek_lock_kind tek__lock_mcs = {
	.name = "mcs",
	.about = "spin lock: a queue of nodes, one for each lock that a thread has",
	.fifo = true,
	.lock = lock,
	.try = try,
	.lock_until = lock_until,
	.unlock = unlock,
};
