/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/record.h"

#include <string.h>
#include <sys/mman.h>

/*
 * Records lie in chunks, each twice as large as the one before. Chunks are few, so that an address
 * is quickly identified. They are no larger than needed, because mlockall(2) and RLIMIT_AS count
 * addresses.
 */
#define FIRST_CHUNK_BYTES ((size_t)32 << 10)
#define CHUNKS (sizeof(void *) > 4 ? 16 : 9) /* 2 GiB, or 16 MiB */
#define RECORDS_IN(chunk) ((FIRST_CHUNK_BYTES << (chunk)) / sizeof(struct tek_posix))

struct tek_posix_first tek_ut__posix_first;

static struct {
	struct tek_spin lock;
	_Atomic(struct tek_posix *) chunks[CHUNKS]; /* NULL from the first missing one on */
	unsigned int chunk;                         /* the one in use */
	size_t used;                                /* of that one */
	struct tek_posix *free;
} records;

static bool map_chunk(unsigned int chunk)
{
	void *memory = mmap(NULL, FIRST_CHUNK_BYTES << chunk, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return false;
	atomic_store_explicit(&records.chunks[chunk], memory, memory_order_release);
	return true;
}

/* Under the lock. */
static struct tek_posix *unused(void)
{
	unsigned int chunk = records.chunk;

	if (records.used == RECORDS_IN(chunk))
		chunk++;
	if (chunk >= CHUNKS || (!records.chunks[chunk] && !map_chunk(chunk)))
		return NULL;
	if (chunk != records.chunk)
		records.used = 0;
	records.chunk = chunk;
	return &records.chunks[chunk][records.used++];
}

struct tek_posix *tek_ut__posix_new(void)
{
	tek_ut__spin_lock(&records.lock);
	struct tek_posix *posix = records.free;
	if (posix)
		records.free = posix->next_free;
	else
		posix = unused();
	tek_ut__spin_unlock(&records.lock);
	if (posix)
		memset(posix, 0, sizeof(*posix));
	return posix;
}

void tek_ut__posix_free(struct tek_posix *posix)
{
	atomic_store_explicit(&posix->thread, NULL, memory_order_relaxed);
	tek_ut__spin_lock(&records.lock);
	posix->next_free = records.free;
	records.free = posix;
	tek_ut__spin_unlock(&records.lock);
}

void tek_ut__posix_give(struct tek_posix *posix, struct tek_uthread *thread)
{
	thread->posix = posix;
	atomic_store_explicit(&posix->thread, thread, memory_order_release);
}

static bool is_record(const struct tek_posix *posix)
{
	for (unsigned int chunk = 0; chunk < CHUNKS; chunk++) {
		const struct tek_posix *first = atomic_load_explicit(&records.chunks[chunk],
								     memory_order_acquire);
		const uintptr_t offset = (uintptr_t)posix - (uintptr_t)first;
		if (!first)
			return false;
		if (offset < RECORDS_IN(chunk) * sizeof(*posix))
			return offset % sizeof(*posix) == 0;
	}
	return false;
}

enum tek_posix_kind tek_ut__posix_find(pthread_t handle, struct tek_posix **found)
{
	struct tek_uthread *thread = (struct tek_uthread *)handle;

	if (!thread)
		return TEK_POSIX_GONE;
	if (tek_ut__posix_first.thread && handle == tek_ut__posix_first.handle)
		thread = tek_ut__posix_first.thread;
	struct tek_posix *posix = thread->posix;
	if (!is_record(posix))
		return TEK_POSIX_FOREIGN;
	if (atomic_load_explicit(&posix->thread, memory_order_acquire) != thread)
		return TEK_POSIX_GONE;
	*found = posix;
	return TEK_POSIX_LIVE;
}

void tek_ut__posix_records_after_fork(void)
{
	atomic_store(&records.lock.held, 0);
}
