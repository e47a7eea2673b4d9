/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The lists of free blocks of tlsf.h, by size. Inline: these are a part of every operation. */
#ifndef TEK_ALLOC_TLSF_LISTS_H
#define TEK_ALLOC_TLSF_LISTS_H

#include "alloc/tlsf_block.h"

/* Where in lists[][] a block belongs. */
struct place {
	unsigned int first, second;
};

static inline unsigned int highest_bit(size_t value)
{
	return (unsigned int)(sizeof(unsigned long) * 8 - 1) -
	       (unsigned int)__builtin_clzl((unsigned long)value);
}

/*
 * The class that has blocks of this size. Below SMALL each size has its own, and they are all of
 * the first level's 0.
 */
static inline struct place place_of(size_t size)
{
	if (size < SMALL)
		return (struct place){0, (unsigned int)(size / TEK_TLSF_ALIGNMENT)};
	unsigned int power = highest_bit(size);
	return (struct place){power - SMALL_LOG2 + 1,
			      (unsigned int)(size >> (power - SECOND_LOG2)) ^ TEK_TLSF_SECOND};
}

/* The first class in which all blocks have this size at least; false: there is none. */
static inline bool place_from(size_t size, struct place *place)
{
	if (size >= SMALL)
		size += ((size_t)1 << (highest_bit(size) - SECOND_LOG2)) - 1;
	if (size > MOST)
		return false;
	*place = place_of(size);
	return true;
}

static inline void list(struct tek_tlsf *heap, struct tek_tlsf_block *block)
{
	const struct place at = place_of(size_of(block));
	struct tek_tlsf_block **head = &heap->lists[at.first][at.second];

	block->previous = NULL;
	block->next = *head;
	if (*head)
		(*head)->previous = block;
	*head = block;
	heap->second[at.first] |= UINT32_C(1) << at.second;
	heap->first |= UINT32_C(1) << at.first;
}

static inline bool is_inside(const struct tek_tlsf *heap, const struct tek_tlsf_block *block)
{
	return (uintptr_t)block >= heap->from && (uintptr_t)block < heap->to;
}

/* Its neighbours in the list know it. */
static inline bool is_linked(const struct tek_tlsf *heap, const struct tek_tlsf_block *block,
			     const struct tek_tlsf_block *head)
{
	const struct tek_tlsf_block *next = block->next, *previous = block->previous;

	if (next && (!is_inside(heap, next) || next->previous != block))
		return false;
	return previous ? is_inside(heap, previous) && previous->next == block : head == block;
}

static inline void unlist(struct tek_tlsf *heap, struct tek_tlsf_block *block)
{
	const struct place at = place_of(size_of(block));

	/*
	 * The program wrote beyond the end of a block, or into a freed one: the block stays as it
	 * is.
	 */
	if (!is_linked(heap, block, heap->lists[at.first][at.second])) {
		heap->is_damaged = true;
		return;
	}
	if (block->next)
		block->next->previous = block->previous;
	if (block->previous) {
		block->previous->next = block->next;
		return;
	}
	heap->lists[at.first][at.second] = block->next;
	if (block->next)
		return;
	heap->second[at.first] &= ~(UINT32_C(1) << at.second);
	if (!heap->second[at.first])
		heap->first &= ~(UINT32_C(1) << at.first);
}

/*
 * A listed block of this size or more, from the smallest class in which there is one. Large sizes
 * come from rounded(), and blocks get such sizes: so a freed block is found again by a request of
 * that size.
 */
static inline struct tek_tlsf_block *find(const struct tek_tlsf *heap, size_t size)
{
	struct place at;

	if (place_from(size, &at)) {
		uint32_t second = heap->second[at.first] & ~UINT32_C(0) << at.second;
		if (!second) {
			/* Two shifts: all of the bits at once is no shift in C. */
			uint32_t first = heap->first & ~UINT32_C(0) << at.first << 1;
			if (first) {
				at.first = (unsigned int)__builtin_ctz(first);
				second = heap->second[at.first];
			}
		}
		if (second)
			return heap->lists[at.first][__builtin_ctz(second)];
	}
	/*
	 * In the class below some may be large enough. One look, to stay bounded; in a full heap it
	 * finds the last.
	 */
	if (size > MOST)
		return NULL;
	at = place_of(size);
	struct tek_tlsf_block *last = heap->lists[at.first][at.second];
	return last && size_of(last) >= size ? last : NULL;
}

/* The least size of the first class in which all blocks are as large: a 32nd more at most. */
static inline size_t rounded(size_t size)
{
	if (size < SMALL)
		return size;
	const size_t width = (size_t)1 << (highest_bit(size) - SECOND_LOG2);
	const size_t up = (size + width - 1) & ~(width - 1);
	return up > MOST ? size : up;
}

/* The last resort of a full heap is a block that has the size but not what it is rounded up to. */
static inline struct tek_tlsf_block *find_for(const struct tek_tlsf *heap, size_t size)
{
	struct tek_tlsf_block *block = find(heap, rounded(size));
	return block ? block : find(heap, size);
}

#endif
