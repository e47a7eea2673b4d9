/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Large blocks of a heap that grows: each has a mapping of its own, which goes back to the kernel
 * when it is freed, and which the kernel moves instead of copying it when it grows. So the free
 * memory of the heap itself is less fragmented, and the heap's size follows the program's use.
 *
 * Each call takes as long as the kernel takes.  No locks: a block is its owner's.
 */
#ifndef TEK_ALLOC_LARGE_H
#define TEK_ALLOC_LARGE_H

#include <stdbool.h>
#include <stddef.h>

/* From so many bytes on, with their alignment. */
#define TEK_LARGE ((size_t)256 << 10)

/*
 * Zero bytes; NULL and errno. `alignment`: a power of two. Neither is more than PTRDIFF_MAX, nor
 * both together.
 */
void *tek_alloc__large_allocate(size_t alignment, size_t bytes);

/* Whether memory that the program has is such a block. */
bool tek_alloc__large_is(const void *memory);

void tek_alloc__large_free(void *memory);

/* As realloc(3), but never less than what it is; NULL and errno. */
void *tek_alloc__large_resize(void *memory, size_t bytes);

size_t tek_alloc__large_usable(const void *memory);

#endif
