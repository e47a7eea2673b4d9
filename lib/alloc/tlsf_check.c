/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A file of its own, because it loops and only tests need it. */
#include "alloc/tlsf_check.h"

#include "alloc/tlsf_block.h"

static bool is_listed(const struct tek_tlsf *heap, const struct tek_tlsf_block *wanted)
{
	for (unsigned int f = 0; f < TEK_TLSF_FIRST; f++)
		for (unsigned int s = 0; s < TEK_TLSF_SECOND; s++)
			for (const struct tek_tlsf_block *b = heap->lists[f][s]; b; b = b->next)
				if (b == wanted)
					return true;
	return false;
}

static const char *check_lists(const struct tek_tlsf *heap)
{
	for (unsigned int f = 0; f < TEK_TLSF_FIRST; f++) {
		if (!(heap->first >> f & 1) != !heap->second[f])
			return "the first level's bit does not tell of the second level's";
		for (unsigned int s = 0; s < TEK_TLSF_SECOND; s++) {
			const struct tek_tlsf_block *before = NULL, *block = heap->lists[f][s];
			if (!(heap->second[f] >> s & 1) != !block)
				return "a bit does not tell of its list";
			for (; block; before = block, block = block->next) {
				if (!(block->size & FREE))
					return "a used block is in a list";
				if (block->previous != before)
					return "a list is not linked back";
			}
		}
	}
	return NULL;
}

const char *tek_alloc__tlsf_check(const struct tek_tlsf *heap, const void *memory)
{
	struct tek_tlsf_block *before = NULL, *block = first_block((void *)memory);
	const char *wrong = check_lists(heap);

	for (; !wrong && size_of(block); before = block, block = block_after(block)) {
		const bool is_after_free = before && before->size & FREE;
		if (size_of(block) < LEAST || size_of(block) % TEK_TLSF_ALIGNMENT)
			wrong = "a block's size is none";
		else if ((block->size & FREE_BEFORE) != (is_after_free ? FREE_BEFORE : 0))
			wrong = "a block does not know of the one before";
		else if (is_after_free && block->before != before)
			wrong = "a block does not find the one before";
		else if (is_after_free && block->size & FREE)
			wrong = "two free neighbours are not one block";
		else if (block->size & FREE && !is_listed(heap, block))
			wrong = "a free block is in no list";
	}
	return wrong;
}
