/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/tls_libraries.h"

#include "uthread/parallel.h"
#include "uthread/spin.h"
#include "uthread/tls.h"
#include "uthread/tls_glibc.h"
#include "uthread/worker.h"

#include <stdatomic.h>

/* The current one, which all blocks of the list follow. Both are written under the lock. */
static struct tek_tls_layout *_Atomic current;
static struct tek_tls *all;
static struct tek_spin lock;

/* The holder stays on its kernel thread. It needs no worker: the child of fork() has none yet. */
static void lock_blocks(void)
{
	tek_ut__come_in();
	tek_ut__here_defer();
	tek_ut__spin_lock(&lock);
}

static void unlock_blocks(void)
{
	tek_ut__spin_unlock(&lock);
	tek_ut__leave();
}

bool tek_ut__tls_libraries_start(void)
{
	struct tek_tls_layout *layout = tek_ut__tls_layout_make();

	atomic_store(&current, layout);
	return layout != NULL;
}

/*
 * In force from now on, in all blocks; `mine` is that of the thread that loaded the library, or 0.
 */
static void put_in_force(struct tek_tls_layout *layout, uintptr_t mine)
{
	struct tek_tls_layout *before = atomic_load(&current);

	for (struct tek_tls *block = all; block; block = block->all_next) {
		tek_ut__tls_layout_add(layout, before, block->pointer, block->pointer == mine);
		block->layout = layout;
	}
	atomic_store_explicit(&current, layout, memory_order_release);
}

void tek_ut__tls_libraries_changed(void)
{
	if (!atomic_load(&current))
		return;
	struct tek_tls_layout *layout = tek_ut__tls_layout_make();
	if (!layout)
		return; /* no memory: the next block that is made tries again */
	size_t generation = atomic_load(&layout->generation);
	lock_blocks();
	struct tek_tls_layout *before = atomic_load(&current);
	/* Two threads may be here at the same time: the later generation counts. */
	bool outdated = generation < atomic_load(&before->generation);
	bool same = tek_ut__tls_layout_same(layout, before);
	if (same && !outdated)
		atomic_store(&before->generation, generation);
	else if (!outdated)
		put_in_force(layout, tek_ut__tls_pointer());
	unlock_blocks();
	if (same || outdated)
		tek_ut__tls_layout_drop(layout);
}

struct tek_tls *tek_ut__tls_libraries_make_block(void)
{
	enum { TRIES = 3 }; /* a program may load libraries all the time */

	for (unsigned int i = 0;; i++) {
		struct tek_tls_layout *layout = atomic_load(&current);
		struct tek_tls *block = tek_ut__tls_block_make(layout);
		if (!block)
			return NULL;
		lock_blocks();
		bool fits = layout == atomic_load(&current) &&
			    (block->generation == atomic_load(&layout->generation) || i >= TRIES);
		if (fits) {
			tek_ut__tls_layout_clear_surplus(layout, block->pointer);
			block->all_next = all;
			all = block;
		}
		unlock_blocks();
		if (fits)
			return block;
		tek_ut__tls_block_drop(block);
		tek_ut__tls_libraries_changed();
	}
}

void tek_ut__tls_libraries_after_fork(void)
{
	atomic_store(&lock.held, 0);
}
