/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The nodes of MCS locks, which somebody needs for each lock it has.  They are memory of the library, never freed and
 * never anything else: a lock that a thread leaves locked when it ends still stands in a queue of nodes, not in memory that
 * has become another's.
 *
 * Each thread takes a page of them when it needs its first, and gives it back at its end (a key's destructor).  From
 * its own page it takes without an atomic instruction; any thread may give one back.  Who finds none, because it has a
 * page of locks at once or there are more threads than pages, takes one of those that all share, of which
 * there are always more.
 */
#ifndef TEK_SYNC_MCS_NODE_H
#define TEK_SYNC_MCS_NODE_H

#include "sync/lock.h"

struct tek_mcs_node {
	_Atomic(struct tek_mcs_node *) next; /* who stands behind it; NULL where nobody uses it */
	_Atomic(struct tek_mcs_node *) waits_for;
	/* What it is the holder's of; NULL: nobody uses it; or tek__mcs_waits. */
	_Atomic(const struct tek_lock *) lock;
} __attribute__((aligned(64)));

/* In use, and not the holder's. */
extern const struct tek_lock tek__mcs_waits __attribute__((visibility("hidden")));

#define TEK_MCS_NODES 64u /* of a page */

/* NULL: it has none. */
extern __thread struct tek_mcs_node *tek__mcs_page
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The calling thread's first one; NULL: it has none, or uses it.  Acquires what was done with the node by who gave it back. */
static inline struct tek_mcs_node *tek__mcs_node_take_first(void)
{
	struct tek_mcs_node *first = tek__mcs_page;

	if (!first || atomic_load_explicit(&first->lock, memory_order_acquire))
		return NULL;
	/* Nobody else takes from here. */
	atomic_store_explicit(&first->lock, &tek__mcs_waits, memory_order_relaxed);
	return first;
}

/* One behind that, or one of those that all share. */
struct tek_mcs_node *tek__mcs_node_take_other(void);

/* The calling thread has the lock now. */
static inline void tek__mcs_node_has_lock(struct tek_mcs_node *node, const struct tek_lock *lock)
{
	atomic_store_explicit(&node->lock, lock, memory_order_relaxed);
}

/* Who has the lock with a node that is not its first one says so: those before that say that they have it have it no more. */
void tek__mcs_node_forget_before(struct tek_mcs_node *node, const struct tek_lock *lock);

static inline void tek__mcs_node_give(struct tek_mcs_node *node)
{
	atomic_store_explicit(&node->lock, NULL, memory_order_release);
}

/* struct tek_lock_kind, leave(): nobody else in the child knows of the node. */
void tek__mcs_node_leave(const struct tek_lock *lock);

/* The holder's, which is not the calling thread's first one; NULL: it is free. */
struct tek_mcs_node *tek__mcs_node_search(struct tek_lock *lock);

#endif
