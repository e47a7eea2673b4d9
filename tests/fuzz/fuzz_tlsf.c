/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Any operations on a heap of bounded time: blocks do not overlap, and the heap stays sound. */
#include "alloc/tlsf.h"
#include "alloc/tlsf_check.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY = 1 << 16, BLOCKS = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tek_tlsf heap;
static struct {
	uint8_t *memory;
	size_t bytes;
} blocks[BLOCKS];

static void check(unsigned int i)
{
	for (size_t at = 0; at < blocks[i].bytes; at++)
		if (blocks[i].memory[at] != (uint8_t)(i + 1))
			abort();
}

static void keep(unsigned int i, void *memory, size_t bytes)
{
	blocks[i].memory = memory;
	blocks[i].bytes = bytes;
	if (tek_alloc__tlsf_usable(memory) < bytes)
		abort();
	memset(memory, (int)(i + 1), bytes);
}

/* Four bytes: the block, the operation, and a size from 0 to more than the heap has. */
static void operate(const uint8_t *data)
{
	const unsigned int i = data[0] % BLOCKS, what = data[1] % 4, shift = data[1] / 4;
	const size_t bytes = ((size_t)data[2] | (size_t)data[3] << 8) >>
			     (shift % 16) << (shift >= 48 ? 40 : 0);

	if (!blocks[i].memory) {
		const size_t alignment = what == 0 ? 1 : (size_t)1 << shift % 16;
		void *memory = tek_alloc__tlsf_allocate_aligned(&heap, alignment, bytes);
		if (memory && (uintptr_t)memory % alignment)
			abort();
		if (memory)
			keep(i, memory, bytes);
		return;
	}
	check(i);
	if (what == 0) {
		if (tek_alloc__tlsf_resize(&heap, blocks[i].memory, bytes))
			keep(i, blocks[i].memory, bytes);
		else
			check(i);
	} else if (what == 1) {
		/* Not the address of a block: refused. */
		if (blocks[i].bytes > 64 && tek_alloc__tlsf_free(&heap, blocks[i].memory + 8))
			abort();
	} else {
		if (!tek_alloc__tlsf_free(&heap, blocks[i].memory))
			abort();
		blocks[i].memory = NULL;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *memory = malloc(MEMORY);

	memset(&heap, 0, sizeof(heap));
	memset(blocks, 0, sizeof(blocks));
	if (!tek_alloc__tlsf_add(&heap, memory, MEMORY))
		abort();
	for (; size >= 4; data += 4, size -= 4)
		operate(data);
	if (tek_alloc__tlsf_check(&heap, memory))
		abort();
	for (unsigned int i = 0; i < BLOCKS; i++)
		if (blocks[i].memory) {
			check(i);
			if (!tek_alloc__tlsf_free(&heap, blocks[i].memory))
				abort();
		}
	if (heap.used || tek_alloc__tlsf_check(&heap, memory) ||
	    !tek_alloc__tlsf_allocate(&heap, MEMORY - TEK_TLSF_OVERHEAD))
		abort();
	free(memory);
	return 0;
}
