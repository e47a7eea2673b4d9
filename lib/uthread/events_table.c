/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/events_table.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#define FILES_A_CHUNK 4096u
/* 16,777,216 descriptors: 16 times the default limit of fs.nr_open. */
#define CHUNKS 4096u
#define CHUNK_BYTES (FILES_A_CHUNK * sizeof(struct tek_file))

static struct tek_file *_Atomic chunks[CHUNKS];

static struct tek_file *chunk_of(int file)
{
	if (file < 0 || (unsigned int)file / FILES_A_CHUNK >= CHUNKS)
		return NULL;
	return atomic_load_explicit(&chunks[(unsigned int)file / FILES_A_CHUNK],
				    memory_order_acquire);
}

struct tek_file *tek_ut__file_find(int file)
{
	struct tek_file *chunk = chunk_of(file);
	return chunk ? &chunk[(unsigned int)file % FILES_A_CHUNK] : NULL;
}

struct tek_file *tek_ut__file_make(int file)
{
	struct tek_file *entry = tek_ut__file_find(file), *expected = NULL;

	if (entry || file < 0 || (unsigned int)file / FILES_A_CHUNK >= CHUNKS)
		return entry;
	/* Not malloc(): poll(2) and read(2) may be called in signal handlers. */
	void *chunk = mmap(NULL, CHUNK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (chunk == MAP_FAILED)
		return NULL;
	if (!atomic_compare_exchange_strong(&chunks[(unsigned int)file / FILES_A_CHUNK], &expected,
					    chunk))
		munmap(chunk, CHUNK_BYTES); /* another thread was faster */
	return tek_ut__file_find(file);
}

int tek_ut__file_from(int file)
{
	for (unsigned int i = (unsigned int)file / FILES_A_CHUNK; i < CHUNKS; i++) {
		if (atomic_load_explicit(&chunks[i], memory_order_acquire))
			return file;
		file = (int)((i + 1) * FILES_A_CHUNK);
	}
	return -1;
}

void tek_ut__files_forget(void)
{
	for (unsigned int i = 0; i < CHUNKS; i++) {
		struct tek_file *chunk = chunks[i];
		/* Untouched pages need no write; pages that are locked in memory do. */
		if (chunk && madvise(chunk, CHUNK_BYTES, MADV_DONTNEED))
			memset(chunk, 0, CHUNK_BYTES);
	}
}

void tek_ut__file_add(struct tek_file *entry, struct tek_interest *interest)
{
	interest->next = NULL;
	interest->previous = entry->last;
	if (entry->last)
		entry->last->next = interest;
	else
		atomic_store_explicit(&entry->first, interest, memory_order_relaxed);
	entry->last = interest;
	interest->listed = true;
}

void tek_ut__file_remove(struct tek_file *entry, struct tek_interest *interest)
{
	if (!interest->listed)
		return;
	if (interest->previous)
		interest->previous->next = interest->next;
	else
		atomic_store_explicit(&entry->first, interest->next, memory_order_relaxed);
	if (interest->next)
		interest->next->previous = interest->previous;
	else
		entry->last = interest->previous;
	interest->listed = false;
}
