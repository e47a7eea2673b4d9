/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/mcs_node.h"

#include "sync/waiting.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

#define PAGES 1024u
#define SHARED 256u
/* Nodes of a thread that are checked before the queue is searched, which finds each node. */
#define FIRST 8u
/* A thread that has found no page takes so many shared nodes before it searches all pages again. */
#define SEARCHES_APART 1024u

/*
 * A page has one owner at a time.  It is mapped for its first owner, because mlockall() counts it.
 */
struct page {
	struct tek_mcs_node *nodes; /* NULL: it is not there yet */
	atomic_bool taken;
};
static struct page pages[PAGES];

__thread struct tek_mcs_node *tek_sync__mcs_page __attribute__((tls_model("initial-exec")));

const struct tek_lock tek_sync__mcs_waits;

static pthread_key_t key;
static bool has_key;

/*
 * Nodes of locks that the thread has left locked stay in use; the next owner of the page passes
 * over them.
 */
static void give_page_back(void *page)
{
	tek_sync__mcs_page = NULL;
	atomic_store_explicit(&((struct page *)page)->taken, false, memory_order_release);
}

/*
 * When the library is loaded: a key of the first ones, for which pthread_setspecific() allocates
 * nothing.
 */
__attribute__((constructor)) static void make_key(void)
{
	has_key = pthread_key_create(&key, give_page_back) == 0;
}

/* From the kernel, because allocators lock. */
static void *map(size_t bytes)
{
	const int before = errno;
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);

	errno = before;
	return memory == MAP_FAILED ? NULL : memory;
}

/* Whether the page, which is the caller's, is there. */
static bool is_mapped(struct page *page)
{
	if (!page->nodes)
		page->nodes = map(TEK_MCS_NODES * sizeof(struct tek_mcs_node));
	return page->nodes;
}

/* Whether it has one now. */
static bool take_page(void)
{
	static atomic_uint next;

	for (unsigned int i = 0; has_key && i < PAGES; i++) {
		struct page *page =
			&pages[atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % PAGES];
		if (atomic_load_explicit(&page->taken, memory_order_relaxed) ||
		    atomic_exchange_explicit(&page->taken, true, memory_order_acquire))
			continue;
		if (!is_mapped(page)) {
			atomic_store_explicit(&page->taken, false, memory_order_release);
			return false;
		}
		tek_sync__mcs_page = page->nodes;
		if (pthread_setspecific(key, page) != 0)
			has_key = false; /* and this one stays taken */
		return true;
	}
	return false;
}

/* Nodes that all share: never freed. */
struct block {
	struct tek_mcs_node nodes[SHARED];
	_Atomic(struct block *) next;
};
static struct block shared;

static struct tek_mcs_node *take_from(struct block *block)
{
	static atomic_uint next;

	for (unsigned int tries = 0; tries < SHARED; tries++) {
		const unsigned int i = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) %
				       SHARED;
		struct tek_mcs_node *node = &block->nodes[i];
		const struct tek_lock *nobody = NULL;
		if (!atomic_load_explicit(&node->lock, memory_order_relaxed) &&
		    atomic_compare_exchange_strong_explicit(
			    &node->lock, &nobody, &tek_sync__mcs_waits, memory_order_acquire,
			    memory_order_relaxed))
			return node;
	}
	return NULL;
}

/* Where two come at once the second block stands behind the first. */
static void add_block(void)
{
	struct block *block = map(sizeof(*block)), *last = &shared, *next = NULL;

	if (!block)
		return;
	while (!atomic_compare_exchange_strong_explicit(
		&last->next, &next, block, memory_order_acq_rel, memory_order_acquire)) {
		last = next;
		next = NULL;
	}
}

/* Waits for one only if there is no memory. */
static struct tek_mcs_node *take_shared(void)
{
	struct tek_spinning spinning = {0};

	for (;;) {
		for (struct block *block = &shared; block;
		     block = atomic_load_explicit(&block->next, memory_order_acquire)) {
			struct tek_mcs_node *node = take_from(block);
			if (node)
				return node;
		}
		add_block();
		tek_sync__spin(&spinning);
	}
}

/* NULL: it has none that is free. */
static struct tek_mcs_node *take_own(void)
{
	for (unsigned int i = 0; i < TEK_MCS_NODES; i++) {
		struct tek_mcs_node *node = &tek_sync__mcs_page[i];
		if (atomic_load_explicit(&node->lock, memory_order_acquire))
			continue;
		atomic_store_explicit(&node->lock, &tek_sync__mcs_waits, memory_order_relaxed);
		return node;
	}
	return NULL;
}

struct tek_mcs_node *tek_sync__mcs_node_take_other(void)
{
	static __thread unsigned int until_search __attribute__((tls_model("initial-exec")));
	struct tek_mcs_node *node = NULL;

	if (!tek_sync__mcs_page && until_search)
		until_search--;
	else if (!tek_sync__mcs_page && !take_page())
		until_search = SEARCHES_APART;
	if (tek_sync__mcs_page)
		node = take_own();
	return node ? node : take_shared();
}

/*
 * The program has made a new lock in the memory of a locked one. A waiter behind such a node may
 * still write to it, so it is never used again. A thread that unlocks in its place may return it
 * right now.
 */
void tek_sync__mcs_node_forget_before(struct tek_mcs_node *node, const struct tek_lock *lock)
{
	struct tek_mcs_node *page = tek_sync__mcs_page;

	for (unsigned int i = 0; page && i < TEK_MCS_NODES && &page[i] != node; i++) {
		const struct tek_lock *seen = lock;
		if (atomic_load_explicit(&page[i].lock, memory_order_relaxed) == lock)
			atomic_compare_exchange_strong_explicit(
				&page[i].lock, &seen, &tek_sync__mcs_waits, memory_order_relaxed,
				memory_order_relaxed);
	}
}

void tek_sync__mcs_node_leave(const struct tek_lock *lock)
{
	struct tek_mcs_node *page = tek_sync__mcs_page;

	for (unsigned int i = 0; page && i < TEK_MCS_NODES; i++)
		if (atomic_load_explicit(&page[i].lock, memory_order_relaxed) == lock) {
			atomic_store_explicit(&page[i].next, NULL, memory_order_relaxed);
			tek_sync__mcs_node_give(&page[i]);
		}
}

/*
 * Only the caller unlocks, so the holder's node and the later ones stay in place. A node's link to
 * its predecessor is acquired with it. A node without that link belongs to a new waiter, or to a
 * thread that gets the lock just now; or a second thread unlocks, an error of the program. So the
 * search restarts.
 */
static struct tek_mcs_node *search_queue(struct tek_lock *lock)
{
	struct tek_spinning spinning = {0};
	struct tek_mcs_node *node;

	while ((node = (struct tek_mcs_node *)atomic_load_explicit(&lock->first,
								   memory_order_acquire))) {
		do
			if (atomic_load_explicit(&node->lock, memory_order_relaxed) == lock)
				return node;
		while ((node = atomic_load_explicit(&node->waits_for, memory_order_acquire)));
		tek_sync__spin(&spinning);
	}
	return NULL;
}

/* Of the thread's nodes it is one of the first, as they are taken in turn. */
struct tek_mcs_node *tek_sync__mcs_node_search(struct tek_lock *lock)
{
	struct tek_mcs_node *page = tek_sync__mcs_page;

	for (unsigned int i = 0; page && i < FIRST; i++)
		if (atomic_load_explicit(&page[i].lock, memory_order_relaxed) == lock)
			return &page[i];
	return search_queue(lock);
}
