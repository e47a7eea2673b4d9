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

#include <stdatomic.h>

struct tek_mcs_node {
	_Atomic(struct tek_mcs_node *) next;
	atomic_uint waits;
	atomic_uint used;
} __attribute__((aligned(64)));

#define TEK_MCS_NODES 64u /* of a page */

/* NULL: it has none. */
extern __thread struct tek_mcs_node *tek__mcs_page
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* One that is not from the first few of the calling thread's page. */
struct tek_mcs_node *tek__mcs_node_other(void);

/* Acquires what was done with the node by who gave it back. */
static inline struct tek_mcs_node *tek__mcs_node_take(void)
{
	struct tek_mcs_node *page = tek__mcs_page;

	for (unsigned int i = 0; page && i < 4; i++)
		if (!atomic_load_explicit(&page[i].used, memory_order_acquire)) {
			/* Nobody else takes from here. */
			atomic_store_explicit(&page[i].used, 1, memory_order_relaxed);
			return &page[i];
		}
	return tek__mcs_node_other();
}

static inline void tek__mcs_node_give(struct tek_mcs_node *node)
{
	atomic_store_explicit(&node->used, 0, memory_order_release);
}

#endif
