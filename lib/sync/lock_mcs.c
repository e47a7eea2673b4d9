/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * MCS: a queue; each waiter spins on a node of its own, which its predecessor writes once.
 *
 * J. M. Mellor-Crummey, M. L. Scott: Algorithms for Scalable Synchronization (1991), 2.4.
 *
 * The lock is one word, which only arriving threads write: the last node of the queue, the holder's
 * included; NULL: it is free. The holder finds its node among its own (mcs_node.h).
 */
#include "sync/lock.h"
#include "sync/mcs_node.h"
#include "sync/poll.h"
#include "sync/waiting.h"

/*
 * Polling its own node disturbs no other thread, so the first polls are closer than spin
 * iterations.
 */
#define POLLS_BEFORE 64

/* Acquires the lock where it reads what the one before has released. */
static bool waits(struct tek_mcs_node *node)
{
	return atomic_load_explicit(&node->waits_for, memory_order_acquire) != NULL;
}

static __attribute__((noinline)) int
wait_behind(struct tek_mcs_node *before, struct tek_mcs_node *node, const struct tek_lock *lock)
{
	struct tek_spinning spinning = {0};

	/*
	 * First, for a thread that may search for the holder, and before the lock can be handed on.
	 */
	atomic_store_explicit(&node->waits_for, before, memory_order_release);
	atomic_store_explicit(&before->next, node, memory_order_release);
	for (int polls = 0; polls < POLLS_BEFORE && waits(node); polls++)
		tek__relax_cpu();
	while (waits(node))
		tek_sync__spin(&spinning);
	tek_sync__mcs_node_has_lock(node, lock);
	return 0;
}

/*
 * The exchange releases the node's content to the next waiter, and acquires the predecessor's.
 * Without a predecessor it acquires the lock from the exchange that has released it.
 */
static inline int lock_with(struct tek_mcs_node *node, struct tek_lock *lock)
{
	struct tek_mcs_node *before = (struct tek_mcs_node *)atomic_exchange_explicit(
		&lock->first, (uintptr_t)node, memory_order_acq_rel);

	if (before)
		return wait_behind(before, node, lock);
	tek_sync__mcs_node_has_lock(node, lock);
	return 0;
}

static __attribute__((noinline)) int lock_with_other(struct tek_lock *lock)
{
	struct tek_mcs_node *node = tek_sync__mcs_node_take_other();

	lock_with(node, lock);
	tek_sync__mcs_node_forget_before(node, lock);
	return 0;
}

static int lock(struct tek_lock *lock)
{
	struct tek_mcs_node *node = tek_sync__mcs_node_take_first();

	return node ? lock_with(node, lock) : lock_with_other(lock);
}

static bool try(struct tek_lock *lock)
{
	uintptr_t last = 0;

	if (atomic_load_explicit(&lock->first, memory_order_relaxed) != 0)
		return false;
	struct tek_mcs_node *node = tek_sync__mcs_node_take_first();

	if (!node)
		node = tek_sync__mcs_node_take_other();
	if (!atomic_compare_exchange_strong_explicit(&lock->first, &last, (uintptr_t)node,
						     memory_order_acq_rel, memory_order_relaxed)) {
		tek_sync__mcs_node_give(node);
		return false;
	}
	tek_sync__mcs_node_has_lock(node, lock);
	tek_sync__mcs_node_forget_before(node, lock);
	return true;
}

/* A waiter cannot leave the queue. */
static int lock_until(struct tek_lock *lock, struct tek_until until)
{
	return tek_sync__poll_until(lock, try, until);
}

/*
 * Hands the lock to the next waiter, which may be about to link itself. Another thread that
 * unlocks, too, may have handed it over already.
 */
static __attribute__((noinline)) int hand_over(struct tek_mcs_node *node,
					       const struct tek_lock *lock)
{
	struct tek_spinning spinning = {0};
	struct tek_mcs_node *next;

	while (!(next = atomic_load_explicit(&node->next, memory_order_acquire))) {
		if (atomic_load_explicit(&node->lock, memory_order_relaxed) != lock)
			return 0;
		tek_sync__spin(&spinning);
	}
	atomic_store_explicit(&next->waits_for, NULL, memory_order_release);
	atomic_store_explicit(&node->next, NULL, memory_order_relaxed);
	tek_sync__mcs_node_give(node);
	return 0;
}

/*
 * The node stays the holder's until no thread can find it; the lock is not accessed after its
 * release.
 */
static inline int unlock_with(struct tek_mcs_node *node, struct tek_lock *lock)
{
	uintptr_t last = (uintptr_t)node;

	if (atomic_load_explicit(&node->next, memory_order_relaxed) ||
	    !atomic_compare_exchange_strong_explicit(&lock->first, &last, 0, memory_order_release,
						     memory_order_relaxed))
		return last ? hand_over(node, lock) : 0;
	tek_sync__mcs_node_give(node);
	return 0;
}

static __attribute__((noinline)) int unlock_with_other(struct tek_lock *lock)
{
	struct tek_mcs_node *node = tek_sync__mcs_node_search(lock);

	return node ? unlock_with(node, lock) : 0;
}

/*
 * Mostly the calling thread has locked it itself, with its first node. Then the lock, which other
 * threads write, is not read.
 */
static int unlock(struct tek_lock *lock)
{
	struct tek_mcs_node *node = tek_sync__mcs_page;

	if (!node || atomic_load_explicit(&node->lock, memory_order_relaxed) != lock)
		return unlock_with_other(lock);
	return unlock_with(node, lock);
}

const struct tek_lock_kind tek_sync__lock_mcs = {
	.name = "mcs",
	.fifo = true,
	.lock = lock,
	.try = try,
	.lock_until = lock_until,
	.unlock = unlock,
	.is_locked = tek_sync__lock_has_first,
	.leave = tek_sync__mcs_node_leave,
};
