/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The nodes of MCS locks: a thread needs one for each lock that it holds. They are memory of the
 * library, never freed and never reused for another purpose. A lock that an ended thread left
 * locked therefore still stands in a queue of nodes, not in reused memory.
 *
 * Each thread takes a page of nodes when it needs its first one, and returns it at its end (a key's
 * destructor). It takes nodes from its own page without an atomic instruction; any thread may
 * return one. A thread without a free node takes a shared one, of which there are always more: it
 * holds a page of locks at once, or there are more threads than pages.
 */
#ifndef TEK_SYNC_MCS_NODE_H
#define TEK_SYNC_MCS_NODE_H

#include "sync/lock.h"

struct tek_mcs_node {
	_Atomic(struct tek_mcs_node *) next; /* the next waiter; NULL where the node is unused */
	_Atomic(struct tek_mcs_node *) waits_for;
	/* The lock that the node's thread holds; NULL: unused; or tek_sync__mcs_waits. */
	_Atomic(const struct tek_lock *) lock;
} __attribute__((aligned(64)));

/* Value of `lock` for a node that is in use and not a holder's. */
extern const struct tek_lock tek_sync__mcs_waits __attribute__((visibility("hidden")));

#define TEK_MCS_NODES 64u /* in a page */

/* The calling thread's page; NULL: it has none. */
extern __thread struct tek_mcs_node *tek_sync__mcs_page
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/*
 * The calling thread's first node; NULL: it has none, or uses it. Acquires what the thread that
 * returned the node did with it.
 */
static inline struct tek_mcs_node *tek_sync__mcs_node_take_first(void)
{
	struct tek_mcs_node *first = tek_sync__mcs_page;

	if (!first || atomic_load_explicit(&first->lock, memory_order_acquire))
		return NULL;
	/* Only this thread takes nodes from here. */
	atomic_store_explicit(&first->lock, &tek_sync__mcs_waits, memory_order_relaxed);
	return first;
}

/* A later node of its page, or a shared one. */
struct tek_mcs_node *tek_sync__mcs_node_take_other(void);

/* The calling thread has the lock now. */
static inline void tek_sync__mcs_node_has_lock(struct tek_mcs_node *node,
					       const struct tek_lock *lock)
{
	atomic_store_explicit(&node->lock, lock, memory_order_relaxed);
}

/*
 * Called by a holder with a node that is not its first: earlier nodes that still record this lock
 * are stale.
 */
void tek_sync__mcs_node_forget_before(struct tek_mcs_node *node, const struct tek_lock *lock);

static inline void tek_sync__mcs_node_give(struct tek_mcs_node *node)
{
	atomic_store_explicit(&node->lock, NULL, memory_order_release);
}

/* struct tek_lock_kind, leave(): no other thread in the child knows of the node. */
void tek_sync__mcs_node_leave(const struct tek_lock *lock);

/* The holder's node, which is not the calling thread's first one; NULL: the lock is free. */
struct tek_mcs_node *tek_sync__mcs_node_search(struct tek_lock *lock);

#endif
