/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The layout of a block of tlsf.h in memory. */
#ifndef TEK_ALLOC_TLSF_BLOCK_H
#define TEK_ALLOC_TLSF_BLOCK_H

#include "alloc/tlsf.h"

/*
 * A block's size counts from its own word `size` to that of the next block, which is where its
 * owner's memory ends: `before` of the next one is the last word of it, and `next` and `previous`
 * are the first ones.
 */
struct tek_tlsf_block {
	struct tek_tlsf_block *before;          /* while that is free */
	size_t size;                            /* a multiple of 16, with FREE and FREE_BEFORE */
	struct tek_tlsf_block *next, *previous; /* in their list, while it is free */
};

#define FREE ((size_t)1)        /* it is in a list */
#define FREE_BEFORE ((size_t)2) /* the block before is */

#define SECOND_LOG2 5
#define SMALL_LOG2 9 /* 32 classes, 16 bytes apart */
#define SMALL ((size_t)1 << SMALL_LOG2)
#define LEAST (4 * sizeof(size_t))
/* The last size for which there is a class. */
#if SIZE_MAX > UINT32_MAX
#define MOST (((size_t)1 << (TEK_TLSF_FIRST + SMALL_LOG2 - 1)) - TEK_TLSF_ALIGNMENT)
#else
#define MOST ((size_t)1 << 31)
#endif

static inline size_t size_of(const struct tek_tlsf_block *block)
{
	return block->size & ~(FREE | FREE_BEFORE);
}

static inline struct tek_tlsf_block *block_after(struct tek_tlsf_block *block)
{
	return (void *)((char *)block + size_of(block));
}

static inline void *memory_of(struct tek_tlsf_block *block)
{
	return &block->next;
}

static inline struct tek_tlsf_block *block_of(void *memory)
{
	return (void *)((char *)memory - offsetof(struct tek_tlsf_block, next));
}

/* In a piece of memory: where the owner's memory of the first block is aligned. */
static inline struct tek_tlsf_block *first_block(void *memory)
{
	const uintptr_t begin = (uintptr_t)memory + offsetof(struct tek_tlsf_block, next);
	return block_of(
		(void *)((begin + TEK_TLSF_ALIGNMENT - 1) & ~(uintptr_t)(TEK_TLSF_ALIGNMENT - 1)));
}

#endif
