/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mallocx() and the rest of jemalloc's own interface, as jemalloc(3) describes it.  A program that
 * is linked with jemalloc passes such blocks to free() and malloc_usable_size(), which are those of
 * this library: redis-server 8 does.
 *
 * mallctl() and malloc_stats_print() stay jemalloc's: they report a heap that is nearly empty.
 */
#include "alloc/heap.h"
#include "alloc/large.h"
#include "alloc/tlsf.h"
#include "base/export.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/*
 * Of `flags`: the binary logarithm of the alignment, and whether the block is to be zeroed.  The
 * rest names caches and arenas, which this heap has not.
 */
#define LOG_OF_ALIGNMENT 0x3f
#define ZERO 0x40

TEK_EXPORT void *mallocx(size_t bytes, int flags);
TEK_EXPORT void *rallocx(void *block, size_t bytes, int flags);
TEK_EXPORT size_t xallocx(void *block, size_t bytes, size_t extra, int flags);
TEK_EXPORT size_t sallocx(const void *block, int flags);
TEK_EXPORT void dallocx(void *block, int flags);
TEK_EXPORT void sdallocx(void *block, size_t bytes, int flags);
TEK_EXPORT size_t nallocx(size_t bytes, int flags);

static size_t alignment_of(int flags)
{
	const unsigned log = flags & LOG_OF_ALIGNMENT;

	if (log >= sizeof(size_t) * CHAR_BIT)
		return SIZE_MAX / 2 + 1; /* no memory has it */
	return (size_t)1 << log < TEK_TLSF_ALIGNMENT ? TEK_TLSF_ALIGNMENT : (size_t)1 << log;
}

/*
 * Zeroes a block that was just allocated or resized, from that byte on.  New pages of a large block
 * are zero already, and stay untouched: a large alignment reserves much more than its size.
 */
static void zero(void *block, size_t from)
{
	if (!tek_alloc__large_is(block))
		memset((char *)block + from, 0, tek_alloc__heap_usable(block) - from);
}

void *mallocx(size_t bytes, int flags)
{
	void *block = tek_alloc__heap_allocate(alignment_of(flags), bytes);
	if (block && flags & ZERO)
		zero(block, 0);
	return block;
}

/* jemalloc zeroes what is beyond the usable size that the block had. */
void *rallocx(void *block, size_t bytes, int flags)
{
	const size_t alignment = alignment_of(flags), had = tek_alloc__heap_usable(block);
	void *resized;

	if (alignment == TEK_TLSF_ALIGNMENT) {
		resized = tek_alloc__heap_resize(block, bytes);
	} else {
		resized = tek_alloc__heap_allocate(alignment, bytes);
		if (resized) {
			memcpy(resized, block, had < bytes ? had : bytes);
			tek_alloc__heap_free(block);
		}
	}
	if (resized && flags & ZERO)
		zero(resized, had < bytes ? had : bytes);
	return resized;
}

/* No block is resized where it is. */
size_t xallocx(void *block, size_t bytes, size_t extra, int flags)
{
	(void)bytes;
	(void)extra;
	(void)flags;
	return tek_alloc__heap_usable(block);
}

size_t sallocx(const void *block, int flags)
{
	(void)flags;
	return tek_alloc__heap_usable((void *)block);
}

/* The number of usable bytes that mallocx() would return; 0: it would fail. */
size_t nallocx(size_t bytes, int flags)
{
	return bytes > PTRDIFF_MAX || alignment_of(flags) > PTRDIFF_MAX ? 0 : bytes;
}

void dallocx(void *block, int flags)
{
	(void)flags;
	tek_alloc__heap_free(block);
}

void sdallocx(void *block, size_t bytes, int flags)
{
	(void)bytes;
	dallocx(block, flags);
}
