/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/tls.h"

#include "uthread/here.h"
#include "uthread/setxid.h"
#include "uthread/tls_glibc.h"
#include "uthread/tls_libraries.h"
#include "uthread/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Blocks outside the workers' own pools. */
static struct {
	struct tek_spin lock;
	struct tek_tls *first;
} pool;

static void add_to_pool(struct tek_tls *first, struct tek_tls *last)
{
	tek_ut__spin_lock(&pool.lock);
	last->next = pool.first;
	pool.first = first;
	tek_ut__spin_unlock(&pool.lock);
}

static struct tek_tls *take_from_pool(void)
{
	tek_ut__spin_lock(&pool.lock);
	struct tek_tls *block = pool.first;
	if (block)
		pool.first = block->next;
	tek_ut__spin_unlock(&pool.lock);
	return block;
}

/* The upper half of a worker's pool goes to the global pool. */
__attribute__((cold, noinline)) static void spill(struct tek_worker *worker)
{
	struct tek_tls *first = worker->free_tls, *last = first;

	for (unsigned int i = 1; i < TEK_TLS_POOL / 2; i++)
		last = last->next;
	worker->free_tls = last->next;
	add_to_pool(first, last);
}

static void put(struct tek_tls *block)
{
	struct tek_worker *worker = tek_ut__here_worker();

	if (!worker) {
		add_to_pool(block, block);
		return;
	}
	struct tek_tls *first = worker->free_tls;
	block->next = first;
	block->depth = first ? first->depth + 1 : 1;
	worker->free_tls = block;
	if (__builtin_expect(block->depth > TEK_TLS_POOL, 0))
		spill(worker);
}

static struct tek_tls *take(void)
{
	struct tek_worker *worker = tek_ut__here_worker();

	if (!worker || !worker->free_tls)
		return take_from_pool();
	struct tek_tls *block = worker->free_tls;
	worker->free_tls = block->next;
	return block;
}

/*
 * A used block without its memory outside the block; if that needs memory and there is none, the
 * block is lost.
 */
static struct tek_tls *trim(struct tek_tls *block)
{
	if (__builtin_expect(tek_ut__tls_block_is_outgrown(block), 0) &&
	    !tek_ut__tls_block_renew(block))
		return NULL;
	return block;
}

static struct tek_tls *take_or_make(void)
{
	struct tek_tls *block = take();
	return block ? trim(block) : tek_ut__tls_libraries_make_block();
}

/* The block that the calling thread has reserved. NULL: it is not the engine's. */
static struct tek_tls **spare_of_self(void)
{
	const struct tek_uthread *self = tek_ut__here_self();
	return self && self->own_tls ? &self->own_tls->spare : NULL;
}

int tek_ut__tls_reserve(void)
{
	struct tek_tls **spare = spare_of_self();

	if (!spare || *spare)
		return 0;
	tek_ut__enter();
	struct tek_tls *block = take();
	tek_ut__leave();
	block = block ? trim(block) : tek_ut__tls_libraries_make_block();
	*spare = block;
	return block ? 0 : ENOMEM;
}

/* The place of a variable of this library in another thread's storage. */
static struct tek_here *here_in(uintptr_t pointer)
{
	const ptrdiff_t at = (char *)tek_ut__here_find() - (char *)tek_ut__tls_pointer();
	return (struct tek_here *)((char *)pointer + at);
}

int tek_ut__tls_give(struct tek_uthread *thread)
{
	struct tek_tls **spare = spare_of_self();
	struct tek_tls *block = spare ? *spare : NULL;

	if (block)
		*spare = NULL;
	else if (!(block = take_or_make()))
		return ENOMEM;
	tek_ut__tls_block_clean(block, thread->stack_low, thread->stack_bytes);
	thread->tls = block->pointer;
	thread->here = here_in(block->pointer);
	thread->own_tls = block;
	return 0;
}

void tek_ut__tls_begin_current(void)
{
	/*
	 * The first values of the C library's pointers into its locale, and no earlier dlopen(3)
	 * error.
	 */
	tek_ut__glibc.use_locale(LC_GLOBAL_LOCALE);
	tek_ut__glibc.load_error();
	errno = 0; /* dlerror() sets it */
}

void tek_ut__tls_end_current(void)
{
	tek_ut__glibc.call_destructors();
}

void tek_ut__tls_take(struct tek_uthread *thread)
{
	struct tek_tls *block = thread->own_tls;

	if (!block || !block->pointer)
		return;
	thread->own_tls = NULL;
	thread->here = NULL;
	thread->tls = 0;
	if (block->spare) {
		put(block->spare);
		block->spare = NULL;
	}
	put(block);
}

/* The kernel stops writing into the storage of this kernel thread. */
static void leave_rseq(uintptr_t pointer)
{
	enum { UNREGISTER = 1, LEAST_BYTES = 32, MOST_BYTES = 1024 };
	static atomic_size_t registered;
#if defined(__aarch64__)
	const unsigned int signature = 0xd428bc00;
#else
	const unsigned int signature = 0x53053053;
#endif
	const unsigned int of_no_use[2] = {0, -2u}; /* cpu_id_start, cpu_id */
	char *area = (char *)pointer + tek_ut__glibc.rseq;
	size_t bytes = atomic_load(&registered);

	if (!tek_ut__glibc.rseq_bytes)
		return;
	/*
	 * The kernel accepts only the size that the C library has registered, so sizes are tried.
	 */
	if (!bytes)
		bytes = LEAST_BYTES;
	while (syscall(SYS_rseq, area, bytes, UNREGISTER, signature) != 0) {
		bytes += sizeof(unsigned int);
		if (bytes > MOST_BYTES)
			return; /* it is not registered: the kernel does not write there */
	}
	atomic_store(&registered, bytes);
	memcpy(area, of_no_use, sizeof(of_no_use));
}

void tek_ut__tls_adopt(struct tek_uthread *thread)
{
	const int saved = errno;

	thread->tls = tek_ut__tls_pointer();
	thread->here = tek_ut__here_find();
	/* Only for its reserved block; without memory it reserves none. */
	thread->own_tls = calloc(1, sizeof(*thread->own_tls));
	leave_rseq(thread->tls);
	tek_ut__setxid_kernel_thread(thread->tls);
	errno = saved;
}

void tek_ut__tls_unadopt(struct tek_uthread *thread)
{
	tek_ut__setxid_forget();
	free(thread->own_tls);
	thread->own_tls = NULL;
}

void tek_ut__tls_after_fork(void)
{
	struct tek_tls **spare = spare_of_self();

	/*
	 * Blocks of lost threads are left alone: the C library considers their malloc arenas free
	 * again.
	 */
	if (spare)
		*spare = NULL;
	pool.first = NULL;
	atomic_store(&pool.lock.held, 0);
	for (unsigned int i = 0; i < tek_ut__worker_count; i++)
		tek_ut__workers[i].free_tls = NULL;
	tek_ut__tls_libraries_after_fork();
	tek_ut__setxid_after_fork(tek_ut__tls_pointer());
}
