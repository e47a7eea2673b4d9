/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The symbols: malloc(3), posix_memalign(3). The operators of C++ call these. */
#include "alloc/heap.h"
#include "alloc/tlsf.h"
#include "base/export.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

/* Attributes that GCC wants repeated on an alias. */
#if __has_attribute(copy)
#define TEK_AS(name) __attribute__((copy(name)))
#else
#define TEK_AS(name)
#endif
/* The C library's second names, which some programs call. */
#define TEK_ALSO(name, other) \
	TEK_EXPORT TEK_AS(name) __attribute__((alias(#name))) __typeof__(name) other

static void *no_memory(void)
{
	errno = ENOMEM;
	return NULL;
}

static bool is_power_of_2(size_t value)
{
	return value && !(value & (value - 1));
}

TEK_EXPORT void *malloc(size_t bytes)
{
	return tek_alloc__heap_allocate(TEK_TLSF_ALIGNMENT, bytes);
}

TEK_EXPORT void free(void *memory)
{
	if (memory)
		tek_alloc__heap_free(memory);
}

TEK_EXPORT void *calloc(size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes))
		return no_memory();
	return tek_alloc__heap_allocate_zeroed(bytes);
}

TEK_EXPORT void *realloc(void *memory, size_t bytes)
{
	if (!memory)
		return tek_alloc__heap_allocate(TEK_TLSF_ALIGNMENT, bytes);
	if (bytes)
		return tek_alloc__heap_resize(memory, bytes);
	/* As in the C library. */
	tek_alloc__heap_free(memory);
	return NULL;
}

TEK_EXPORT void *reallocarray(void *memory, size_t count, size_t size)
{
	size_t bytes;
	return __builtin_mul_overflow(count, size, &bytes) ? no_memory() : realloc(memory, bytes);
}

TEK_EXPORT int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
	if (!is_power_of_2(alignment) || alignment % sizeof(void *))
		return EINVAL;
	const int saved = errno;
	void *block = tek_alloc__heap_allocate(alignment, bytes);
	errno = saved;
	if (!block)
		return ENOMEM;
	*memory = block;
	return 0;
}

TEK_EXPORT void *memalign(size_t alignment, size_t bytes)
{
	size_t power = TEK_TLSF_ALIGNMENT;

	if (alignment > SIZE_MAX / 2 + 1) {
		errno = EINVAL;
		return NULL;
	}
	while (power < alignment)
		power *= 2;
	return tek_alloc__heap_allocate(power, bytes);
}

TEK_EXPORT void *aligned_alloc(size_t alignment, size_t bytes)
{
	if (is_power_of_2(alignment))
		return tek_alloc__heap_allocate(alignment, bytes);
	errno = EINVAL;
	return NULL;
}

TEK_EXPORT void *valloc(size_t bytes)
{
	return tek_alloc__heap_allocate((size_t)sysconf(_SC_PAGESIZE), bytes);
}

TEK_EXPORT void *pvalloc(size_t bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (bytes > SIZE_MAX - page)
		return no_memory();
	return tek_alloc__heap_allocate(page, (bytes + page - 1) & ~(page - 1));
}

TEK_EXPORT size_t malloc_usable_size(void *memory)
{
	return memory ? tek_alloc__heap_usable(memory) : 0;
}

TEK_ALSO(malloc, __libc_malloc);
TEK_ALSO(free, __libc_free);
TEK_ALSO(calloc, __libc_calloc);
TEK_ALSO(realloc, __libc_realloc);
TEK_ALSO(memalign, __libc_memalign);
TEK_ALSO(valloc, __libc_valloc);
TEK_ALSO(pvalloc, __libc_pvalloc);
