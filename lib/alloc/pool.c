/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "alloc/pool.h"

#include "base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

size_t tek_alloc__whole_pages(size_t bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	return (bytes + page - 1) & ~(page - 1);
}

/* The pages that lie in it, in whole or in part. */
static void *pages_of(void *memory, size_t *bytes)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	const uintptr_t from = (uintptr_t)memory & ~(page - 1);

	*bytes = (((uintptr_t)memory + *bytes + page - 1) & ~(page - 1)) - from;
	return (void *)from;
}

int tek_alloc__pool_populate(void *memory, size_t bytes)
{
	char *pages = pages_of(memory, &bytes);

	if (madvise(pages, bytes, MADV_POPULATE_WRITE) == 0)
		return 0;
	if (errno != EINVAL)
		return errno;
	/*
	 * An older kernel. A write to each page, which preserves concurrent writes of other
	 * threads.
	 */
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	for (size_t at = 0; at < bytes; at += page)
		__atomic_fetch_or(pages + at, 0, __ATOMIC_RELAXED);
	return 0;
}

int tek_alloc__pool_lock(void *memory, size_t bytes)
{
	void *pages = pages_of(memory, &bytes);
	return mlock(pages, bytes) ? errno : 0;
}

/* The bytes that the kernel could give without swapping; SIZE_MAX: unknown. proc_meminfo(5). */
static size_t available(void)
{
	static const char name[] = "MemAvailable:";
	char text[1024];
	uint64_t kib = 0;
	int file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/meminfo", O_RDONLY | O_CLOEXEC);
	long bytes = file < 0 ? -1 : syscall(SYS_read, file, text, sizeof(text) - 1);

	if (file >= 0)
		syscall(SYS_close, file);
	text[bytes > 0 ? bytes : 0] = '\0';
	const char *at = strstr(text, name);
	if (!at)
		return SIZE_MAX;
	at += sizeof(name) - 1;
	at += strspn(at, " ");
	if (!tek__parse_number(&at, SIZE_MAX / 1024, &kib))
		return SIZE_MAX;
	return (size_t)kib * 1024;
}

void *tek_alloc__pool_make(size_t bytes)
{
	/* Filling it would make the kernel kill a process. */
	if (bytes > available()) {
		errno = ENOMEM;
		return NULL;
	}
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);

	if (memory == MAP_FAILED)
		return NULL;
	/*
	 * A policy of its own, whichever: so the kernel's balancing of NUMA nodes leaves its page
	 * table alone.
	 */
	syscall(SYS_mbind, memory, bytes, MPOL_LOCAL, NULL, 0, 0);
	/*
	 * Huge pages while it is filled, if there are any; later none are to be made from its
	 * pages.
	 */
	madvise(memory, bytes, MADV_HUGEPAGE);
	int error = tek_alloc__pool_populate(memory, bytes);
	madvise(memory, bytes, MADV_NOHUGEPAGE);
	if (error) {
		munmap(memory, bytes);
		errno = error;
		return NULL;
	}
	return memory;
}
