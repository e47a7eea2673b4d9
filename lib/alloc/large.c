/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "alloc/large.h"

#include "alloc/pool.h"
#include "alloc/tlsf.h"

#include <stdint.h>
#include <sys/mman.h>

/*
 * Before its owner's memory. The last word is where blocks of the heap have their size, which is
 * never this one.
 */
struct large {
	uintptr_t check;
	void *map;
	size_t bytes; /* of the mapping */
	size_t mark;
};

#define MARK ((size_t)4)
#define CHECK ((uintptr_t)0x6b657431)

_Static_assert(sizeof(struct large) % TEK_TLSF_ALIGNMENT == 0, "memory behind it is aligned");

static struct large *large_of(const void *memory)
{
	return (struct large *)((uintptr_t)memory - sizeof(struct large));
}

static void describe(void *memory, void *map, size_t bytes)
{
	*large_of(memory) = (struct large){
		.check = (uintptr_t)memory ^ CHECK,
		.map = map,
		.bytes = bytes,
		.mark = MARK,
	};
}

void *tek_alloc__large_allocate(size_t alignment, size_t bytes)
{
	if (alignment < TEK_TLSF_ALIGNMENT)
		alignment = TEK_TLSF_ALIGNMENT;
	const size_t all = tek_alloc__whole_pages(sizeof(struct large) + alignment + bytes);
	char *map = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED)
		return NULL;
	const uintptr_t begin = (uintptr_t)map + sizeof(struct large);
	char *memory = map + sizeof(struct large) + (-begin & (alignment - 1));
	describe(memory, map, all);
	return memory;
}

bool tek_alloc__large_is(const void *memory)
{
	return (uintptr_t)memory % TEK_TLSF_ALIGNMENT == 0 && large_of(memory)->mark == MARK &&
	       large_of(memory)->check == ((uintptr_t)memory ^ CHECK);
}

void tek_alloc__large_free(void *memory)
{
	munmap(large_of(memory)->map, large_of(memory)->bytes);
}

void *tek_alloc__large_resize(void *memory, size_t bytes)
{
	const struct large old = *large_of(memory);
	const size_t before = (size_t)((char *)memory - (char *)old.map);
	const size_t all = tek_alloc__whole_pages(before + bytes);

	if (all == old.bytes)
		return memory;
	char *map = mremap(old.map, old.bytes, all, MREMAP_MAYMOVE);
	if (map == MAP_FAILED)
		return NULL;
	describe(map + before, map, all);
	return map + before;
}

size_t tek_alloc__large_usable(const void *memory)
{
	const struct large *large = large_of(memory);
	return large->bytes - (size_t)((const char *)memory - (const char *)large->map);
}
