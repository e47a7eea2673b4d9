/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A pairing heap with its nodes inside the ordered objects: O(1) to add and to read the first,
 * O(log n) amortised to remove, no memory of its own. The least key comes first; of equal keys the
 * lesser `order`.
 *
 * It has no lock: its user has one.
 */
#ifndef TEK_UTHREAD_HEAP_H
#define TEK_UTHREAD_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tek_heap_node {
	uint64_t key, order;
	struct tek_heap_node *child, *next; /* the first child; the next sibling */
	struct tek_heap_node *previous;     /* the sibling before, or the parent of a first child */
};

struct tek_heap {
	struct tek_heap_node *root;
};

static inline struct tek_heap_node *tek_ut__heap_first(const struct tek_heap *heap)
{
	return heap->root;
}

void tek_ut__heap_add(struct tek_heap *heap, struct tek_heap_node *node);

/* `node` is in the heap. */
void tek_ut__heap_remove(struct tek_heap *heap, struct tek_heap_node *node);

#endif
