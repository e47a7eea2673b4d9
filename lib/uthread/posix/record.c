/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/record.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* Addresses are taken for all that there can ever be, memory as it is needed, in steps of whole pages. */
#define MOST_BYTES ((size_t)1 << (sizeof(void *) > 4 ? 31 : 24))
#define STEP_BYTES ((size_t)256 << 10)

struct tek_posix_first tek__posix_first;

static struct {
	struct tek_spin lock;
	struct tek_posix *all;
	size_t most_bytes, usable_bytes;
	size_t used; /* so many have ever been used */
	struct tek_posix *free;
} records;

/*
 * A small part of the addresses that the process may have (RLIMIT_AS): stacks and the heap need
 * them, too.
 */
static size_t most_bytes(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur / 16 >= MOST_BYTES)
		return MOST_BYTES;
	const size_t bytes = (size_t)limit.rlim_cur / 16 / STEP_BYTES * STEP_BYTES;
	return bytes ? bytes : STEP_BYTES;
}

/* Less of them where there are not so many. */
static bool take_addresses(void)
{
	for (size_t bytes = most_bytes(); bytes >= STEP_BYTES;
	     bytes = bytes / 4 / STEP_BYTES * STEP_BYTES) {
		void *memory = mmap(NULL, bytes, PROT_NONE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (memory != MAP_FAILED) {
			records.most_bytes = bytes;
			records.all = memory;
			return true;
		}
	}
	return false;
}

/* Under the lock. */
static bool more(void)
{
	if (!records.all && !take_addresses())
		return false;
	if (records.usable_bytes == records.most_bytes ||
	    mprotect((char *)records.all + records.usable_bytes, STEP_BYTES,
		     PROT_READ | PROT_WRITE) != 0)
		return false;
	records.usable_bytes += STEP_BYTES;
	return true;
}

/* Under the lock. */
static struct tek_posix *unused(void)
{
	if ((records.used + 1) * sizeof(struct tek_posix) > records.usable_bytes && !more())
		return NULL;
	return &records.all[records.used++];
}

struct tek_posix *tek__posix_new(void)
{
	tek__spin_lock(&records.lock);
	struct tek_posix *posix = records.free;
	if (posix)
		records.free = posix->next_free;
	else
		posix = unused();
	tek__spin_unlock(&records.lock);
	if (posix)
		memset(posix, 0, sizeof(*posix));
	return posix;
}

void tek__posix_free(struct tek_posix *posix)
{
	atomic_store_explicit(&posix->thread, NULL, memory_order_relaxed);
	tek__spin_lock(&records.lock);
	posix->next_free = records.free;
	records.free = posix;
	tek__spin_unlock(&records.lock);
}

void tek__posix_give(struct tek_posix *posix, struct tek_uthread *thread)
{
	thread->posix = posix;
	atomic_store_explicit(&posix->thread, thread, memory_order_release);
}

static bool is_record(const struct tek_posix *posix)
{
	uintptr_t first = (uintptr_t)records.all, at = (uintptr_t)posix;

	return first && at >= first && at < first + records.usable_bytes &&
	       (at - first) % sizeof(*posix) == 0;
}

enum tek_posix_kind tek__posix_find(pthread_t handle, struct tek_posix **found)
{
	struct tek_uthread *thread = (struct tek_uthread *)handle;

	if (!thread)
		return TEK_POSIX_GONE;
	if (tek__posix_first.thread && handle == tek__posix_first.handle)
		thread = tek__posix_first.thread;
	struct tek_posix *posix = thread->posix;
	if (!is_record(posix))
		return TEK_POSIX_FOREIGN;
	if (atomic_load_explicit(&posix->thread, memory_order_acquire) != thread)
		return TEK_POSIX_GONE;
	*found = posix;
	return TEK_POSIX_LIVE;
}

void tek__posix_records_after_fork(void)
{
	atomic_store(&records.lock.held, 0);
}
