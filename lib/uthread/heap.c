/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/heap.h"

static bool before(const struct tek_heap_node *one, const struct tek_heap_node *other)
{
	return one->key != other->key ? one->key < other->key : one->order < other->order;
}

/* Two roots become one. */
static struct tek_heap_node *meld(struct tek_heap_node *one, struct tek_heap_node *other)
{
	if (!one || !other)
		return one ? one : other;
	if (before(other, one)) {
		struct tek_heap_node *swap = one;
		one = other;
		other = swap;
	}
	other->previous = one;
	other->next = one->child;
	if (one->child)
		one->child->previous = other;
	one->child = other;
	return one;
}

/* Siblings become one tree: in pairs from the left, then all pairs from the right. */
static struct tek_heap_node *meld_all(struct tek_heap_node *first)
{
	struct tek_heap_node *pairs = NULL, *root = NULL;

	while (first) {
		struct tek_heap_node *second = first->next;
		struct tek_heap_node *rest = second ? second->next : NULL;
		first->next = NULL;
		if (second)
			second->next = NULL;
		first = meld(first, second);
		first->next = pairs;
		pairs = first;
		first = rest;
	}
	while (pairs) {
		struct tek_heap_node *rest = pairs->next;
		pairs->next = NULL;
		root = meld(root, pairs);
		pairs = rest;
	}
	if (root)
		root->previous = NULL;
	return root;
}

void tek_ut__heap_add(struct tek_heap *heap, struct tek_heap_node *node)
{
	node->child = node->next = node->previous = NULL;
	heap->root = meld(heap->root, node);
	heap->root->previous = NULL;
}

void tek_ut__heap_remove(struct tek_heap *heap, struct tek_heap_node *node)
{
	struct tek_heap_node *children = meld_all(node->child);

	if (node == heap->root) {
		heap->root = children;
		return;
	}
	if (node->previous->child == node)
		node->previous->child = node->next;
	else
		node->previous->next = node->next;
	if (node->next)
		node->next->previous = node->previous;
	heap->root = meld(heap->root, children);
	heap->root->previous = NULL;
}
