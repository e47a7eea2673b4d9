/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/stacks.h"

#include "uthread/engine.h"
#include "uthread/worker.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13: a guard page that needs no mapping of its own */
#endif

/* Small blocks are mapped together. */
#define SLAB_BYTES ((size_t)2 << 20)
/* The number of free blocks in a worker's own pool. */
#define WORKER_KEEPS 256
/* The used part of a stack beyond this much goes back to the kernel. */
#define RETAINED_BYTES ((size_t)64 << 10)

/* Blocks of one size that are free. */
struct pool {
	size_t block_bytes;
	struct tek_uthread *free;
};

#define STACK_MOST ((size_t)1 << (sizeof(size_t) > 4 ? 40 : 30))
#define POOLS 128
static struct {
	struct tek_spin lock;
	struct pool of[POOLS]; /* the first is that of the default size */
	unsigned int count;
} pools;

/* No more are made: tek_ut__stacks_prepare(). Set once, before there is a second thread. */
static bool sealed;

struct tek_uthread *_Atomic tek_ut__uthreads;

static size_t page_bytes(void)
{
	static size_t bytes;
	if (!bytes)
		bytes = (size_t)sysconf(_SC_PAGESIZE);
	return bytes;
}

static size_t up(size_t value, size_t multiple)
{
	return (value + multiple - 1) / multiple * multiple;
}

/* The structure, at a place of its own in the cache: not all of them in the same cache lines. */
#define THREAD_BYTES up(sizeof(struct tek_uthread), 64)

/*
 * Four sizes for each power of 2, so that there are few: at most a quarter is lost, of addresses
 * only.
 */
static size_t round_size(size_t bytes)
{
	size_t power = TEK_STACK_LEAST;
	while (power < bytes / 2)
		power *= 2;
	for (size_t quarters = 4; quarters < 8; quarters++) {
		if (bytes <= power / 4 * quarters)
			return power / 4 * quarters;
	}
	return power * 2;
}

/* 0: it is too large. */
static size_t block_bytes_for(size_t stack_bytes)
{
	if (!stack_bytes)
		stack_bytes = tek_ut__engine.stack_bytes;
	if (stack_bytes > STACK_MOST)
		return 0;
	if (stack_bytes < TEK_STACK_LEAST)
		stack_bytes = TEK_STACK_LEAST;
	return up(round_size(stack_bytes), page_bytes()) + page_bytes();
}

/* The size of a default block, which stays that of the engine's start. */
static size_t usual_block_bytes(void)
{
	static _Atomic size_t known;
	size_t bytes = atomic_load_explicit(&known, memory_order_relaxed);

	if (__builtin_expect(!bytes, 0)) {
		bytes = block_bytes_for(0);
		atomic_store_explicit(&known, bytes, memory_order_relaxed);
	}
	return bytes;
}

/*
 * The lowest page of a block must not be used. Where guard pages without mappings are unknown, an
 * inaccessible mapping replaces them, until the process has too many (vm.max_map_count): then the
 * block has no guard page.
 */
static void guard(char *block)
{
	if (madvise(block, page_bytes(), MADV_GUARD_INSTALL) != 0)
		mprotect(block, page_bytes(), PROT_NONE);
}

/* For observers of all threads. */
static void list(struct tek_uthread *thread)
{
	thread->all_next = atomic_load_explicit(&tek_ut__uthreads, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&tek_ut__uthreads, &thread->all_next, thread,
						      memory_order_release, memory_order_relaxed))
		;
}

static struct tek_uthread *make_block(char *block, size_t block_bytes)
{
	struct tek_uthread *thread = (struct tek_uthread *)(void *)(block + block_bytes -
								    THREAD_BYTES);

	thread->stack_low = block + page_bytes();
	thread->stack_bytes = (size_t)((char *)thread - thread->stack_low);
	thread->block_bytes = block_bytes;
	list(thread);
	return thread;
}

char *tek_ut__stack_end(const struct tek_uthread *thread)
{
	return (char *)(uintptr_t)thread + THREAD_BYTES;
}

/* So many new blocks, a list; NULL: there is no memory. */
static struct tek_uthread *map_blocks(size_t block_bytes, size_t count)
{
	char *slab = mmap(NULL, count * block_bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	struct tek_uthread *first = NULL;

	if (slab == MAP_FAILED)
		return NULL;
	/* One touch of a huge page would make megabytes resident. */
	madvise(slab, count * block_bytes, MADV_NOHUGEPAGE);
	for (size_t i = count; i-- > 0;) {
		guard(slab + i * block_bytes);
		struct tek_uthread *thread = make_block(slab + i * block_bytes, block_bytes);
		thread->next_free = first;
		first = thread;
	}
	return first;
}

/* One block where there is no room for more (RLIMIT_AS, or mlockall(2) within RLIMIT_MEMLOCK). */
static struct tek_uthread *map_slab(size_t block_bytes)
{
	struct tek_uthread *blocks = NULL;

	if (block_bytes < SLAB_BYTES)
		blocks = map_blocks(block_bytes, SLAB_BYTES / block_bytes);
	return blocks ? blocks : map_blocks(block_bytes, 1);
}

/* The pool of that size. Under the lock. */
static struct pool *pool_of(size_t block_bytes)
{
	unsigned int i = 0;
	while (i < pools.count && pools.of[i].block_bytes != block_bytes)
		i++;
	if (i == pools.count)
		pools.of[pools.count++].block_bytes = block_bytes;
	return &pools.of[i];
}

static struct tek_uthread *take_common(size_t block_bytes)
{
	tek_ut__spin_lock(&pools.lock);
	struct pool *pool = pool_of(block_bytes);
	struct tek_uthread *thread = pool->free;
	if (thread)
		pool->free = thread->next_free;
	tek_ut__spin_unlock(&pools.lock);
	return thread;
}

/* A list of blocks of one size, to the common pool. */
static void give_common(struct tek_uthread *first)
{
	struct tek_uthread *last = first;

	if (!first)
		return;
	while (last->next_free)
		last = last->next_free;
	tek_ut__spin_lock(&pools.lock);
	struct pool *pool = pool_of(first->block_bytes);
	last->next_free = pool->free;
	pool->free = first;
	tek_ut__spin_unlock(&pools.lock);
}

struct tek_uthread *tek_ut__stacks_take_own(size_t stack_bytes)
{
	return map_blocks(block_bytes_for(stack_bytes), 1);
}

struct tek_uthread *tek_ut__stacks_take(struct tek_worker *worker, size_t stack_bytes)
{
	bool usual = !stack_bytes || stack_bytes == tek_ut__engine.stack_bytes;
	struct tek_uthread *thread;

	if (sealed) /* no other sizes, and none from a worker's own pool */
		return stack_bytes <= tek_ut__engine.stack_bytes ? take_common(usual_block_bytes())
								 : NULL;
	if (usual && worker && worker->free) {
		thread = worker->free;
		worker->free = thread->next_free;
		worker->free_count--;
		return thread;
	}
	size_t block_bytes = block_bytes_for(stack_bytes);
	if (!block_bytes)
		return NULL;
	thread = take_common(block_bytes);
	if (thread)
		return thread;
	thread = map_slab(block_bytes);
	if (!thread)
		return NULL;
	struct tek_uthread *rest = thread->next_free;
	if (usual && worker) {
		for (struct tek_uthread *each = rest; each; each = each->next_free)
			worker->free_count++;
		worker->free = rest;
	} else {
		give_common(rest);
	}
	return thread;
}

void tek_ut__stacks_give(struct tek_worker *worker, struct tek_uthread *thread)
{
	if (!sealed && worker && worker->free_count < WORKER_KEEPS &&
	    thread->block_bytes == usual_block_bytes()) {
		thread->next_free = worker->free;
		worker->free = thread;
		worker->free_count++;
		return;
	}
	if (thread->stack_bytes > RETAINED_BYTES) {
		size_t bytes = (thread->stack_bytes - RETAINED_BYTES) / page_bytes() * page_bytes();
		madvise(thread->stack_low, bytes, MADV_DONTNEED);
	}
	thread->next_free = NULL;
	give_common(thread);
}

int tek_ut__stacks_prepare(unsigned int count)
{
	struct tek_uthread *blocks = map_blocks(usual_block_bytes(), count);

	if (!blocks)
		return ENOMEM;
	sealed = true;
	give_common(blocks);
	return 0;
}

void tek_ut__stacks_after_fork(void)
{
	/*
	 * The holder is not there; a list that was being changed may be broken, so it is left
	 * alone.
	 */
	if (atomic_exchange(&pools.lock.held, 0)) {
		for (unsigned int i = 0; i < pools.count; i++)
			pools.of[i].free = NULL;
	}
}
