/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "threads/index.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

struct entry {
	unsigned int tid; /* 0: free */
	unsigned int slot;
};

struct index {
	unsigned int mask;  /* number of entries, a power of two, minus one */
	unsigned int count; /* entries in use: at most half of them */
	struct index *older;
	struct entry entries[];
};

enum { FIRST_ENTRIES = 1024 };

static struct index *current;
static bool incomplete; /* some id found no memory */

static unsigned int get(const unsigned int *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* The slot first: a reader that sees the id sees a slot that was its own at some time. */
static void put(struct entry *entry, struct entry value)
{
	__atomic_store_n(&entry->slot, value.slot, __ATOMIC_RELEASE);
	__atomic_store_n(&entry->tid, value.tid, __ATOMIC_RELEASE);
}

/*
 * Where the search for an id begins.  Ids are given in sequence, with gaps where other
 * processes made threads: taken as they are they would fall into long runs that overlap.
 */
static unsigned int slot_of(const struct index *index, unsigned int tid)
{
	return (tid * 0x9e3779b1u >> 16) & index->mask; /* Knuth's multiplicative hash */
}

static size_t bytes_of(unsigned int entries)
{
	return sizeof(struct index) + entries * sizeof(struct entry);
}

/* Where the id is, or where it belongs. There is always a free entry. */
static struct entry *place_of(struct index *index, unsigned int tid)
{
	unsigned int at = slot_of(index, tid);
	while (index->entries[at].tid && index->entries[at].tid != tid)
		at = (at + 1) & index->mask;
	return &index->entries[at];
}

__attribute__((cold)) static bool grow(void)
{
	unsigned int entries = current ? 2 * (current->mask + 1) : FIRST_ENTRIES;
	struct index *index = mmap(NULL, bytes_of(entries), PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (index == MAP_FAILED)
		return false;
	index->mask = entries - 1;
	index->older = current;
	for (unsigned int i = 0; current && i <= current->mask; i++)
		if (current->entries[i].tid)
			*place_of(index, current->entries[i].tid) = current->entries[i];
	index->count = current ? current->count : 0;
	__atomic_store_n(&current, index, __ATOMIC_RELEASE);
	return true;
}

void tek__index_insert(pid_t tid, unsigned int slot)
{
	bool full = !current || current->count > current->mask / 2;
	if (full && !grow()) {
		incomplete = true;
		return;
	}
	struct entry *entry = place_of(current, (unsigned int)tid);
	current->count += entry->tid == 0;
	put(entry, (struct entry){.tid = (unsigned int)tid, .slot = slot});
}

/* Fill the gap with a later entry that may not stand behind a free one, and so on. */
static void close_gap(struct index *index, unsigned int gap)
{
	for (unsigned int at = (gap + 1) & index->mask; index->entries[at].tid;
	     at = (at + 1) & index->mask) {
		unsigned int first = slot_of(index, index->entries[at].tid);
		if (((at - first) & index->mask) < ((at - gap) & index->mask))
			continue;
		put(&index->entries[gap], index->entries[at]);
		gap = at;
	}
	put(&index->entries[gap], (struct entry){0});
}

void tek__index_remove(pid_t tid, unsigned int slot)
{
	if (!current)
		return;
	struct entry *entry = place_of(current, (unsigned int)tid);
	if (!entry->tid || entry->slot != slot)
		return;
	current->count--;
	close_gap(current, (unsigned int)(entry - current->entries));
}

bool tek__index_find(pid_t tid, unsigned int *slot)
{
	const struct index *index = __atomic_load_n(&current, __ATOMIC_ACQUIRE);

	if (!index)
		return false;
	unsigned int first = slot_of(index, (unsigned int)tid);
	for (unsigned int i = 0; i <= index->mask; i++) {
		const struct entry *entry = &index->entries[(first + i) & index->mask];
		unsigned int found = get(&entry->tid);
		if (!found)
			return false;
		if (found == (unsigned int)tid) {
			*slot = get(&entry->slot);
			return true;
		}
	}
	return false;
}

/* A function that was interrupted by a signal handler that forked may still search for an id. */
void tek__index_forget(void)
{
	if (!current)
		return;
	memset(current->entries, 0, (current->mask + 1) * sizeof(struct entry));
	current->count = 0;
	incomplete = false;
}

bool tek__index_is_incomplete(void)
{
	return incomplete;
}
