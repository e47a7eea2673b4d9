/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "alloc/tlsf.h"

#include "alloc/tlsf_block.h"
#include "alloc/tlsf_lists.h"

#include <string.h>

static void mark_free(struct tek_tlsf_block *block)
{
	struct tek_tlsf_block *after = block_after(block);

	block->size |= FREE;
	after->before = block;
	after->size |= FREE_BEFORE;
}

static void mark_used(struct tek_tlsf_block *block)
{
	block->size &= ~FREE;
	block_after(block)->size &= ~FREE_BEFORE;
}

/*
 * Puts a block into a list, merged with its free neighbours.  It is marked as free first: a fork
 * may copy the memory in between, and the block must not count as used there
 * (tek_alloc__tlsf_rebuild()).
 */
static void give(struct tek_tlsf *heap, struct tek_tlsf_block *block)
{
	struct tek_tlsf_block *after = block_after(block);

	block->size |= FREE;
	if (after->size & FREE) {
		unlist(heap, after);
		block->size += size_of(after);
	}
	if (block->size & FREE_BEFORE) {
		struct tek_tlsf_block *before = block->before;
		unlist(heap, before);
		before->size += size_of(block);
		block = before;
	}
	mark_free(block);
	list(heap, block);
}

/*
 * Behind so much of a block begins another one, free and in no list yet. From block to block there
 * is always a way.
 */
static struct tek_tlsf_block *split(struct tek_tlsf_block *block, size_t size)
{
	struct tek_tlsf_block *other = (void *)((char *)block + size);

	other->size = (size_of(block) - size) | FREE;
	__atomic_store_n(&block->size, block->size - size_of(other), __ATOMIC_RELEASE);
	return other;
}

/* A block that is in no list shrinks to this size, if what is left makes a block. */
static void trim(struct tek_tlsf *heap, struct tek_tlsf_block *block, size_t size)
{
	if (size_of(block) >= size + LEAST)
		give(heap, split(block, size));
}

static void count(struct tek_tlsf *heap, const struct tek_tlsf_block *block)
{
	heap->used += size_of(block);
	if (heap->used > heap->most_used)
		heap->most_used = heap->used;
}

/* A free block that is in no list gets an owner. */
static void *hand_out(struct tek_tlsf *heap, struct tek_tlsf_block *block, size_t size)
{
	trim(heap, block, size);
	mark_used(block);
	count(heap, block);
	return memory_of(block);
}

/* Of the block for so many bytes; 0: there is none so large. */
static size_t size_for(size_t bytes)
{
	if (bytes > MOST - TEK_TLSF_ALIGNMENT - sizeof(size_t))
		return 0;
	const size_t size = (bytes + sizeof(size_t) + TEK_TLSF_ALIGNMENT - 1) &
			    ~(size_t)(TEK_TLSF_ALIGNMENT - 1);
	return size < LEAST ? LEAST : size;
}

bool tek_alloc__tlsf_add(struct tek_tlsf *heap, void *memory, size_t bytes)
{
	if (bytes < TEK_TLSF_OVERHEAD || bytes > MOST)
		return false;
	struct tek_tlsf_block *block = first_block(memory);
	const uintptr_t end = (uintptr_t)memory + bytes - 2 * sizeof(size_t);
	const size_t size = (end - (uintptr_t)block) & ~(size_t)(TEK_TLSF_ALIGNMENT - 1);

	block->size = size;
	/* After all other blocks a used one without memory: blocks do not merge beyond it. */
	block_after(block)->size = 0;
	mark_free(block);
	list(heap, block);
	/* No block is before the first one. */
	block->before = heap->pieces;
	/*
	 * Before the piece is there: a fork between them leaves a range that is too wide, and not
	 * one that lacks it.
	 */
	if (!heap->from || (uintptr_t)memory < heap->from)
		heap->from = (uintptr_t)memory;
	if (end > heap->to)
		heap->to = end;
	heap->bytes += bytes;
	__atomic_store_n(&heap->pieces, block, __ATOMIC_RELEASE);
	return true;
}

void *tek_alloc__tlsf_allocate(struct tek_tlsf *heap, size_t bytes)
{
	const size_t size = size_for(bytes);
	struct tek_tlsf_block *block = size ? find_for(heap, size) : NULL;

	if (!block)
		return NULL;
	unlist(heap, block);
	return hand_out(heap, block, rounded(size));
}

/*
 * The distance from a block's begin to that of a block with aligned memory: 0, or at least a
 * block's size.
 */
static size_t gap_of(struct tek_tlsf_block *block, size_t alignment)
{
	const uintptr_t begin = (uintptr_t)memory_of(block);

	if (!(begin & (alignment - 1)))
		return 0;
	return ((begin + LEAST + alignment - 1) & ~(uintptr_t)(alignment - 1)) - begin;
}

/*
 * One that is just large enough, and happens to be where it should, as one that was freed; or one
 * with room for a gap.
 */
static struct tek_tlsf_block *find_aligned(const struct tek_tlsf *heap, size_t alignment,
					   size_t size)
{
	struct tek_tlsf_block *block = find_for(heap, size);

	if (!block || gap_of(block, alignment) + size <= size_of(block))
		return block;
	return alignment > MOST - size - LEAST ? NULL : find_for(heap, size + alignment + LEAST);
}

void *tek_alloc__tlsf_allocate_aligned(struct tek_tlsf *heap, size_t alignment, size_t bytes)
{
	if (alignment <= TEK_TLSF_ALIGNMENT)
		return tek_alloc__tlsf_allocate(heap, bytes);
	const size_t size = size_for(bytes);
	struct tek_tlsf_block *block = size ? find_aligned(heap, alignment, size) : NULL;

	if (!block)
		return NULL;
	unlist(heap, block);
	const size_t gap = gap_of(block, alignment);
	if (!gap)
		return hand_out(heap, block, rounded(size));
	void *memory = hand_out(heap, split(block, gap), rounded(size));
	give(heap, block);
	return memory;
}

/* NULL: it cannot be a block in use. */
static struct tek_tlsf_block *used_block(const struct tek_tlsf *heap, const void *memory)
{
	struct tek_tlsf_block *block = block_of((void *)memory);

	if ((uintptr_t)memory % TEK_TLSF_ALIGNMENT || (uintptr_t)block < heap->from ||
	    (uintptr_t)memory >= heap->to || block->size & FREE || size_of(block) < LEAST ||
	    size_of(block) > heap->to - (uintptr_t)block || block_after(block)->size & FREE_BEFORE)
		return NULL;
	return block;
}

bool tek_alloc__tlsf_has(const struct tek_tlsf *heap, const void *memory)
{
	return used_block(heap, memory) != NULL;
}

bool tek_alloc__tlsf_free(struct tek_tlsf *heap, void *memory)
{
	struct tek_tlsf_block *block = used_block(heap, memory);

	if (!block)
		return false;
	heap->used -= size_of(block);
	give(heap, block);
	return true;
}

/* A used block becomes as large as that, if the one behind it is free and has enough. */
static bool take_from_behind(struct tek_tlsf *heap, struct tek_tlsf_block *block, size_t size)
{
	struct tek_tlsf_block *after = block_after(block);
	const size_t old = size_of(block), together = old + size_of(after);

	if (!(after->size & FREE) || together < size)
		return false;
	unlist(heap, after);
	/* Its rest first, so that it is at no time the block's. */
	if (together >= rounded(size) + LEAST)
		give(heap, split(after, rounded(size) - old));
	block->size += size_of(after);
	mark_used(block);
	return true;
}

bool tek_alloc__tlsf_resize(struct tek_tlsf *heap, void *memory, size_t bytes)
{
	struct tek_tlsf_block *block = used_block(heap, memory);
	const size_t size = size_for(bytes);

	if (!block || !size)
		return false;
	const size_t old = size_of(block);
	if (size > size_of(block) && !take_from_behind(heap, block, size))
		return false;
	trim(heap, block, rounded(size));
	heap->used -= old;
	count(heap, block);
	return true;
}

/* All else follows from a sound chain of blocks. */
static void rebuild_piece(struct tek_tlsf *heap, struct tek_tlsf_block *block)
{
	block->size &= ~FREE_BEFORE;
	for (; size_of(block); block = block_after(block)) {
		if (!(block->size & FREE)) {
			mark_used(block);
			count(heap, block);
			continue;
		}
		while (block_after(block)->size & FREE)
			block->size += size_of(block_after(block));
		mark_free(block);
		list(heap, block);
	}
}

void tek_alloc__tlsf_rebuild(struct tek_tlsf *heap)
{
	heap->first = 0;
	heap->used = 0;
	memset(heap->second, 0, sizeof(heap->second));
	memset(heap->lists, 0, sizeof(heap->lists));
	for (struct tek_tlsf_block *piece = heap->pieces; piece; piece = piece->before)
		rebuild_piece(heap, piece);
}

size_t tek_alloc__tlsf_usable(const void *memory)
{
	return size_of(block_of((void *)memory)) - sizeof(size_t);
}
