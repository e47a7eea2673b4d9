/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two-level segregated fit: an allocator of which each operation takes bounded time, whatever the
 * heap contains. M. Masmano, I. Ripoll, A. Crespo, J. Real: TLSF: A New Dynamic Memory Allocator
 * for Real-Time Systems, ECRTS 2004.
 *
 * Free blocks are in lists by size: a first level of powers of two, each cut into 32 equal classes.
 * A bit for each list records whether it has a block, so two searches for a lowest bit find the
 * list to take from. Freed blocks merge with their neighbours at once. Sizes are rounded up to
 * those of a class, so a freed block fits the next request of that size, whatever else is in its
 * class. Nothing here loops, but for tek_alloc__tlsf_rebuild().
 *
 * Life: all zero is a heap without memory; memory is added and never leaves.  The caller locks.  No
 * function allocates, makes a system call, or knows of errno.  A block costs one word, and is 32
 * bytes at least (16 in a 32-bit program).
 */
#ifndef TEK_ALLOC_TLSF_H
#define TEK_ALLOC_TLSF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of each block that is handed out. */
#define TEK_TLSF_ALIGNMENT 16

/* The bytes that a piece of memory needs beyond the one block that is to fit into it. */
#define TEK_TLSF_OVERHEAD 64

#define TEK_TLSF_FIRST 32
#define TEK_TLSF_SECOND 32

struct tek_tlsf {
	uint32_t first; /* bit f: one of lists[f] has a block */
	uint32_t second[TEK_TLSF_FIRST];
	struct tek_tlsf_block *lists[TEK_TLSF_FIRST][TEK_TLSF_SECOND];
	/* The first block of the last piece; its `before` is that of the piece before. */
	struct tek_tlsf_block *pieces;
	uintptr_t from, to; /* all memory lies in between */
	size_t bytes;       /* that were added */
	size_t used;        /* in blocks that are handed out, with their words */
	size_t most_used;
	bool is_damaged; /* a list was changed from outside: the program wrote beyond its memory */
};

/* From now on the heap's. False, and not taken: too small, or 1 TiB and more. */
bool tek_alloc__tlsf_add(struct tek_tlsf *heap, void *memory, size_t bytes);

/* NULL: there is no such block. Of 0 bytes one gets a block, too. */
void *tek_alloc__tlsf_allocate(struct tek_tlsf *heap, size_t bytes);

/* The same at a multiple of `alignment`, a power of two. */
void *tek_alloc__tlsf_allocate_aligned(struct tek_tlsf *heap, size_t alignment, size_t bytes);

/*
 * False, and nothing is done: it is no block of this heap, or free already, as far as can be seen
 * at once.
 */
bool tek_alloc__tlsf_free(struct tek_tlsf *heap, void *block);

/*
 * Makes a block larger or smaller where it is. False, and it stays as it was: there is no room
 * behind it.
 */
bool tek_alloc__tlsf_resize(struct tek_tlsf *heap, void *block, size_t bytes);

/*
 * In the copy of a heap that fork(2) made while another thread was in one of these functions, which
 * will never end here: makes a sound heap of it. A block that that thread was about to free or get
 * is lost or free. It loops over all blocks.
 *
 * The copy must have that thread's writes up to one of them, and none after it. So the kernel makes
 * the copy: when it is done, the page tables no longer allow writes.
 */
void tek_alloc__tlsf_rebuild(struct tek_tlsf *heap);

/* Whether tek_alloc__tlsf_free() would. */
bool tek_alloc__tlsf_has(const struct tek_tlsf *heap, const void *block);

/* The bytes of a block that its owner may use: as many as requested, or a few more. */
size_t tek_alloc__tlsf_usable(const void *block);

#endif
