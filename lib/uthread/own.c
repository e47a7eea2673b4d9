/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/own.h"

#include "uthread/inherit.h"
#include "uthread/key.h"
#include "uthread/worker.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

__thread struct tek_own *tek_ut__own_of_kernel_thread;

#define BLOCKS_AT_ONCE 128

union block {
	union block *next; /* while it is free */
	struct tek_own own;
	struct tek_values values;
};

static struct {
	struct tek_spin lock;
	union block *first;
} blocks;

static union block *take(void)
{
	tek_ut__enter();
	tek_ut__spin_lock(&blocks.lock);
	union block *block = blocks.first;
	if (block)
		blocks.first = block->next;
	tek_ut__spin_unlock(&blocks.lock);
	tek_ut__leave();
	return block;
}

/* Gives back a chain of them, from first to last. */
static void give(union block *first, union block *last)
{
	tek_ut__enter();
	tek_ut__spin_lock(&blocks.lock);
	last->next = blocks.first;
	blocks.first = first;
	tek_ut__spin_unlock(&blocks.lock);
	tek_ut__leave();
}

static union block *map_more(void)
{
	union block *more = mmap(NULL, BLOCKS_AT_ONCE * sizeof(*more), PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (more == MAP_FAILED)
		return NULL;
	for (size_t i = 1; i + 1 < BLOCKS_AT_ONCE; i++)
		more[i].next = &more[i + 1];
	give(&more[1], &more[BLOCKS_AT_ONCE - 1]);
	return &more[0];
}

static union block *new_block(void)
{
	union block *block = take();

	if (!block)
		block = map_more();
	if (block)
		memset(block, 0, sizeof(*block));
	return block;
}

struct tek_values *tek_ut__own_block(void)
{
	union block *block = new_block();
	return block ? &block->values : NULL;
}

/* Whether the calling thread ends before its process does. */
static bool can_end(void)
{
	return syscall(SYS_gettid) != getpid();
}

static void end_kernel_thread(void *unused)
{
	(void)unused;
	if (tek_ut__own_of_kernel_thread)
		tek_ut__keys_end();
}

/* A destructor of a thread-local variable, as C++ has them, reports a kernel thread's end. */
static void on_end(void)
{
	extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *) __attribute__((weak));
	extern void *__dso_handle __attribute__((visibility("hidden")));

	if (__cxa_thread_atexit_impl && can_end())
		__cxa_thread_atexit_impl(end_kernel_thread, NULL, &__dso_handle);
}

struct tek_own *tek_ut__own_made(void)
{
	struct tek_own *own = tek_ut__own();
	struct tek_uthread *self = tek_ut__here_self();

	if (own)
		return own;
	union block *block = new_block();
	if (!block)
		return NULL;
	own = &block->own;
	own->thread = self;
	if (self) {
		self->keys = own;
	} else {
		tek_ut__own_of_kernel_thread = own;
		on_end();
	}
	return own;
}

void tek_ut__own_drop(void)
{
	struct tek_uthread *self = tek_ut__here_self();
	struct tek_own *own = tek_ut__own();

	if (!own)
		return;
	for (unsigned int i = 0; own->blocks; i++) {
		union block *block = (union block *)own->values[i];
		if (!block)
			continue;
		own->blocks--;
		give(block, block);
	}
	if (self)
		tek_ut__inherit_end(self);
	else
		tek_ut__own_of_kernel_thread = NULL;
	give((union block *)own, (union block *)own);
}

void tek_ut__own_after_fork(void)
{
	atomic_store(&blocks.lock.held, 0);
	tek_ut__inherit_after_fork();
}

void tek_ut__own_adopt(struct tek_uthread *first)
{
	struct tek_own *own = tek_ut__own_of_kernel_thread;

	tek_ut__own_of_kernel_thread = NULL;
	first->keys = own;
	if (own)
		own->thread = first;
}

/* Never inlined: the compiler must not compute the address before the call. */
__attribute__((noinline)) uintptr_t tek_ut__kernel_thread_id(void)
{
	return (uintptr_t)&tek_ut__own_of_kernel_thread | 1;
}
