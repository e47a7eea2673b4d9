/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/export.h"
#include "preload/profile/call.h"

#include <errno.h>
#include <string.h>

/* From here on it may be mapped, and touched by the kernel. */
#define LONG_BYTES 65536

/*
 * Memory for the dynamic loader during the lookup of functions: never freed. An allocator that is
 * called then would call functions that are not found yet.
 */
static char early[65536] __attribute__((aligned(16)));
static size_t early_used;

static void *early_malloc(size_t bytes)
{
	size_t rounded = (bytes + 31) & ~(size_t)15;

	if (rounded < bytes || rounded > sizeof(early) - early_used)
		return NULL;
	char *block = early + early_used;
	early_used += rounded;
	memcpy(block, &bytes, sizeof(bytes));
	return block + 16;
}

static bool is_early(const void *block)
{
	return (const char *)block >= early && (const char *)block < early + sizeof(early);
}

static bool is_too_early(void)
{
	if (__builtin_expect(tek_prof__is_found, 1))
		return false;
	if (!tek_prof__is_looking)
		tek_prof__find_real(offsetof(struct tek_profile_real, malloc));
	return !tek_prof__is_found;
}

/* Some block was so large: only then blocks that are given back are asked for their size. */
static bool had_long;

static bool is_long(size_t bytes)
{
	if (__builtin_expect(bytes < LONG_BYTES, 1))
		return false;
	__atomic_store_n(&had_long, true, __ATOMIC_RELAXED);
	return true;
}

static bool is_long_block(void *block)
{
	return __atomic_load_n(&had_long, __ATOMIC_RELAXED) &&
	       REAL(malloc_usable_size)(block) >= LONG_BYTES;
}

#define TEK_ALLOCATES(bytes, call) \
	uint32_t weight_; \
	struct tek_profile_thread *thread_ = tek_prof__enter_counted(TEK_PROFILE_ALLOC, TEK_FRAME, \
								     is_long(bytes), &weight_); \
	__typeof__(call) result_ = call; \
	if (thread_) \
		tek_prof__leave_counted(thread_, TEK_PROFILE_ALLOC, weight_); \
	return result_

TEK_EXPORT void *malloc(size_t bytes)
{
	if (is_too_early())
		return early_malloc(bytes);
	TEK_ALLOCATES(bytes, REAL(malloc)(bytes));
}

TEK_EXPORT void *calloc(size_t count, size_t bytes)
{
	/* The loader requests little, so the product cannot overflow. Early memory is zero. */
	if (is_too_early())
		return early_malloc(count * bytes);
	TEK_ALLOCATES(count * bytes, REAL(calloc)(count, bytes));
}

TEK_EXPORT void *realloc(void *block, size_t bytes)
{
	if (is_too_early() || is_early(block)) {
		size_t old = 0;
		void *moved = malloc(bytes);
		if (block)
			memcpy(&old, (char *)block - 16, sizeof(old));
		if (moved && block)
			memcpy(moved, block, old < bytes ? old : bytes);
		return moved;
	}
	/* Of a large block a small one may be made. */
	size_t larger = bytes < LONG_BYTES && block && is_long_block(block) ? LONG_BYTES : bytes;
	TEK_ALLOCATES(larger, REAL(realloc)(block, bytes));
}

TEK_EXPORT void *reallocarray(void *block, size_t count, size_t bytes)
{
	size_t all;

	if (__builtin_mul_overflow(count, bytes, &all)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(block, all);
}

TEK_EXPORT void free(void *block)
{
	uint32_t weight;

	if (!block || is_too_early() || is_early(block))
		return;
	struct tek_profile_thread *thread = tek_prof__enter_counted(TEK_PROFILE_ALLOC, TEK_FRAME,
								    is_long_block(block), &weight);
	REAL(free)(block);
	if (thread)
		tek_prof__leave_counted(thread, TEK_PROFILE_ALLOC, weight);
}

TEK_EXPORT int posix_memalign(void **block, size_t alignment, size_t bytes)
{
	TEK_ALLOCATES(bytes, REAL(posix_memalign)(block, alignment, bytes));
}

TEK_EXPORT void *aligned_alloc(size_t alignment, size_t bytes)
{
	TEK_ALLOCATES(bytes, REAL(aligned_alloc)(alignment, bytes));
}

TEK_EXPORT void *memalign(size_t alignment, size_t bytes)
{
	TEK_ALLOCATES(bytes, REAL(memalign)(alignment, bytes));
}

TEK_EXPORT void *valloc(size_t bytes)
{
	TEK_ALLOCATES(bytes, REAL(valloc)(bytes));
}

TEK_EXPORT void *pvalloc(size_t bytes)
{
	TEK_ALLOCATES(bytes, REAL(pvalloc)(bytes));
}
