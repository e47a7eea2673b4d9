/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "alloc/heap.h"

#include "alloc/large.h"
#include "alloc/lock.h"
#include "alloc/options.h"
#include "alloc/pool.h"
#include "alloc/report.h"
#include "alloc/tlsf.h"
#include "base/channel.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * A piece of memory that the heap grows by has an eighth of what it has already, within these
 * limits.
 */
#define PIECE_LEAST ((size_t)1 << 20)
#define PIECE_MOST ((size_t)64 << 20)

#define ABSURD (SIZE_MAX / 4)

static struct tek_alloc_lock lock;
static struct tek_tlsf heap; /* under the lock */
static bool has_begun;       /* under the lock */
/*
 * Above it there are no more than a few pages of data that are written to, which a pool has present
 * as well.
 */
static char first_memory[64 << 10] __attribute__((aligned(64)));

/* Before the start the heap grows, whatever it will be. */
static atomic_size_t pool_bytes;
static atomic_flag reported_used_up = ATOMIC_FLAG_INIT;

__attribute__((cold, noinline)) static void complain(const char *what, const void *memory)
{
	tek_alloc__report("tek: %s(%p): this is no memory that the program has\n", what, memory);
	abort();
}

__attribute__((cold, noinline)) static void complain_of_damage(void)
{
	tek_alloc__report("tek: the program wrote to memory that it does not have, and the heap is "
			  "damaged: behind the end of a block, or into one that it had freed\n");
	abort();
}

__attribute__((cold, noinline)) static void mend_after_fork(void)
{
	lock.was_left = false;
	tek_alloc__tlsf_rebuild(&heap);
}

static bool enter(void)
{
	if (!tek_alloc__lock(&lock))
		return false;
	if (__builtin_expect(!has_begun, 0)) {
		has_begun = true;
		tek_alloc__tlsf_add(&heap, first_memory, sizeof(first_memory));
	}
	if (__builtin_expect(lock.was_left, 0))
		mend_after_fork();
	return true;
}

static void leave(void)
{
	const bool is_damaged = heap.is_damaged;

	tek_alloc__unlock(&lock);
	if (__builtin_expect(is_damaged, 0))
		complain_of_damage();
}

/* A piece, without the lock: other threads go on. Only a large block exceeds a piece. */
static bool grow(size_t has)
{
	size_t size = has / 8;

	size = tek_alloc__whole_pages(size < PIECE_LEAST  ? PIECE_LEAST
				      : size > PIECE_MOST ? PIECE_MOST
							  : size);
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED && size > PIECE_LEAST) {
		size = PIECE_LEAST;
		memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0);
	}
	if (memory == MAP_FAILED)
		return false;
	bool added = enter();
	if (added) {
		added = tek_alloc__tlsf_add(&heap, memory, size);
		leave();
	}
	if (!added)
		munmap(memory, size);
	return added;
}

static void *no_memory(void)
{
	errno = ENOMEM;
	return NULL;
}

/* As one writes it, with the unit that follows: pool=64M. */
static size_t in_units(size_t bytes, const char **unit)
{
	static const char *const units[] = {"", "K", "M", "G"};
	unsigned int i = 0;

	while (i < 3 && bytes % 1024 == 0)
		bytes /= 1024, i++;
	*unit = units[i];
	return bytes;
}

/* There is no block of so many bytes. */
static void *used_up(size_t bytes)
{
	const size_t pool = atomic_load(&pool_bytes);

	/* Some programs ask for what no machine has, to see that they do not get it. */
	if (pool && bytes < ABSURD && !atomic_flag_test_and_set(&reported_used_up)) {
		const char *unit;
		const size_t number = in_units(pool, &unit);
		tek_alloc__report(
			"tek: the pool of %zu%s is used up: the program gets no more memory "
			"(ENOMEM); --alloc pool=SIZE gives it more\n",
			number, unit);
	}
	return no_memory();
}

void *tek_alloc__heap_allocate(size_t alignment, size_t bytes)
{
	const int saved = errno;

	/* Beyond it differences of pointers overflow; and the sums below do not. */
	if (bytes > PTRDIFF_MAX || alignment > PTRDIFF_MAX - bytes)
		return no_memory();
	tek_alloc__heap_begin(false);
	for (;;) {
		const bool has_pool = atomic_load_explicit(&pool_bytes, memory_order_relaxed);
		void *memory = NULL;
		if (!has_pool && bytes + alignment >= TEK_LARGE) {
			memory = tek_alloc__large_allocate(alignment, bytes);
			if (!memory)
				return no_memory();
			errno = saved;
			return memory;
		}
		if (!enter())
			return no_memory();
		memory = tek_alloc__tlsf_allocate_aligned(&heap, alignment, bytes);
		const size_t has = heap.bytes;
		leave();
		if (memory) {
			errno = saved;
			return memory;
		}
		if (has_pool)
			return used_up(bytes);
		if (!grow(has))
			return no_memory();
	}
}

void *tek_alloc__heap_allocate_zeroed(size_t bytes)
{
	void *memory = tek_alloc__heap_allocate(TEK_TLSF_ALIGNMENT, bytes);

	if (memory && !tek_alloc__large_is(memory))
		memset(memory, 0, bytes);
	return memory;
}

void tek_alloc__heap_free(void *memory)
{
	const int saved = errno;

	if (tek_alloc__large_is(memory)) {
		tek_alloc__large_free(memory);
		errno = saved;
		return;
	}
	if (!enter())
		return;
	bool freed = tek_alloc__tlsf_free(&heap, memory);
	leave();
	if (!freed)
		complain("free", memory);
}

/* Somewhere else. */
static void *move(void *memory, size_t old, size_t bytes)
{
	void *other = tek_alloc__heap_allocate(TEK_TLSF_ALIGNMENT, bytes);

	if (other) {
		memcpy(other, memory, old < bytes ? old : bytes);
		tek_alloc__heap_free(memory);
	}
	return other;
}

void *tek_alloc__heap_resize(void *memory, size_t bytes)
{
	if (bytes > PTRDIFF_MAX)
		return no_memory();
	if (tek_alloc__large_is(memory)) {
		if (bytes < TEK_LARGE / 2)
			return move(memory, tek_alloc__large_usable(memory), bytes);
		const int saved = errno;
		void *resized = tek_alloc__large_resize(memory, bytes);
		/*
		 * The kernel does not move what is of several kinds, as after madvise(2) for a part
		 * of it.
		 */
		if (!resized)
			return move(memory, tek_alloc__large_usable(memory), bytes);
		errno = saved;
		return resized;
	}
	if (!enter())
		return no_memory();
	const bool is_there = tek_alloc__tlsf_has(&heap, memory);
	const size_t old = is_there ? tek_alloc__tlsf_usable(memory) : 0;
	const bool resized = is_there && tek_alloc__tlsf_resize(&heap, memory, bytes);
	leave();
	if (!is_there)
		complain("realloc", memory);
	return resized ? memory : move(memory, old, bytes);
}

size_t tek_alloc__heap_usable(const void *memory)
{
	return tek_alloc__large_is(memory) ? tek_alloc__large_usable(memory)
					   : tek_alloc__tlsf_usable(memory);
}

/* The shell raises its soft limit up to the hard limit; root raises both. */
static void report_unlocked(size_t bytes, int error)
{
	/* With room for memory that the C library and the program lock. */
	size_t kib = (bytes >> 10) + 1024;

	tek_alloc__report("tek: the pool is present but not locked: %s; raise the limit of locked "
			  "memory with `ulimit -l %zu`, or as root with `prlimit --pid %d "
			  "--memlock=%zu:%zu`, and run the program again\n",
			  strerrordesc_np(error), kib, (int)getppid(), kib << 10, kib << 10);
}

/* Locks the pool, the first static memory, and the heap's own data. */
static void lock_pages(void *pool, size_t bytes)
{
	int error = tek_alloc__pool_lock(pool, bytes);

	if (!error)
		error = tek_alloc__pool_lock(first_memory, sizeof(first_memory));
	if (!error)
		error = tek_alloc__pool_lock(&heap, sizeof(heap));
	if (error)
		report_unlocked(bytes + sizeof(first_memory) + sizeof(heap), error);
}

static void make_pool(size_t wanted)
{
	const size_t bytes = tek_alloc__whole_pages(wanted);
	void *pool = tek_alloc__pool_make(bytes);
	if (!pool) {
		const int error = errno;
		const char *unit;
		const size_t number = in_units(wanted, &unit);
		tek_alloc__report(
			"tek: no memory for a pool of %zu%s: %s; the program has the same "
			"allocator without a pool, as with --alloc tlsf\n",
			number, unit, strerrordesc_np(error));
		return;
	}
	/* The pages of what the heap already has besides. */
	tek_alloc__pool_populate(first_memory, sizeof(first_memory));
	tek_alloc__pool_populate(&heap, sizeof(heap));
	lock_pages(pool, bytes);
	if (!enter())
		return;
	tek_alloc__tlsf_add(&heap, pool, bytes);
	leave();
	atomic_store(&pool_bytes, bytes);
}

static void start(void)
{
	struct tek_alloc_options options = {0};
	const char *text = secure_getenv("TEK_ALLOC");
	const int saved = errno;

	tek__channel_start();
	tek_alloc__lock_start(&lock);
	if (text && *text && !tek_alloc__options_parse(&options, text))
		tek_alloc__report("tek: TEK_ALLOC is not understood and ignored: %s; write tlsf or "
				  "pool=SIZE, as in pool=64M\n",
				  text);
	if (options.pool)
		make_pool(options.pool);
	errno = saved;
}

void tek_alloc__heap_begin(bool is_environment_there)
{
	static atomic_bool begun;

	if (__builtin_expect(!atomic_load_explicit(&begun, memory_order_relaxed), 0) &&
	    (is_environment_there || __environ) && !atomic_exchange(&begun, true))
		start();
}
