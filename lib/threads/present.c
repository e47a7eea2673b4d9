/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "threads/present.h"

#include "base/descriptor.h"
#include "base/page.h"
#include "threads/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/fs.h, since 6.7. */
struct scan {
	uint64_t bytes, flags, start, end, walk_end, regions, region_count, most_pages, inverted,
		all_of, any_of, wanted;
};
struct region {
	uint64_t start, end, categories;
};
#define SCAN _IOWR('f', 16, struct scan)
enum {
	IS_PRESENT = 1 << 3,
	IS_SWAPPED = 1 << 4,
	IS_ZERO = 1 << 5, /* the kernel's page of zeros: only read */
};

/* pagemap: Documentation/admin-guide/mm/pagemap.rst */
#define PAGEMAP_USED (UINT64_C(3) << 62)

enum {
	NONE = -1,   /* not opened yet, or there was no room for it just now */
	REFUSED = -2 /* it cannot be opened */
};

enum {
	ENTRIES = 64, /* of pagemap that are read at a time: it may be a small stack */
	VECTOR = 256, /* pages that mincore() is asked for at a time */
};

static atomic_int open_fd = NONE;
static atomic_bool without_scan; /* the kernel is older */
static struct tek_file_identity pagemap;

unsigned int tek__present_ways = TEK_PRESENT_SCAN | TEK_PRESENT_PAGEMAP | TEK_PRESENT_MINCORE;

int tek__present_fd(void)
{
	int fd = atomic_load_explicit(&open_fd, memory_order_relaxed);
	return fd < 0 ? -1 : fd;
}

/* `before` is of no use (any more). */
__attribute__((cold)) static int open_again(int before)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC | O_NOCTTY);
	bool passing = fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM);

	if (fd >= 0) {
		fd = tek__descriptor_move_up(fd);
		tek__descriptor_file(fd, &pagemap);
	}
	int now = fd >= 0 ? fd : passing ? NONE : REFUSED;
	if (!atomic_compare_exchange_strong(&open_fd, &before, now)) {
		if (fd >= 0)
			close(fd); /* another thread was faster */
		fd = atomic_load(&open_fd);
	}
	return fd;
}

static int descriptor(void)
{
	int fd = atomic_load_explicit(&open_fd, memory_order_acquire);
	return fd == NONE ? open_again(NONE) : fd;
}

static bool is_ours(int fd)
{
	return tek__descriptor_is(fd, pagemap);
}

static bool scan(int fd, uintptr_t low, uintptr_t end, unsigned int most, struct tek_run *run)
{
	struct region region;
	struct scan request = {
		.bytes = sizeof(request),
		.start = low,
		.end = end,
		.regions = (uintptr_t)&region,
		.region_count = 1,
		.most_pages = most,
		.any_of = IS_PRESENT | IS_SWAPPED,
		.wanted = IS_PRESENT | IS_SWAPPED | IS_ZERO,
	};
	int found = ioctl(fd, SCAN, &request);

	if (found < 0 || found > 1)
		return false;
	*run = found ? (struct tek_run){(uintptr_t)region.start, (uintptr_t)region.end,
					!(region.categories & IS_ZERO)}
		     : (struct tek_run){end, end, false};
	return true;
}

/* A run is begun or goes on at `page`, or has ended there: then true. */
static bool extend(struct tek_run *run, uintptr_t page, bool present)
{
	if (present && run->low == run->end)
		run->low = page;
	if (present)
		run->end = page + tek__page_bytes;
	return !present && run->low != run->end;
}

__attribute__((cold, noinline)) static bool read_pagemap(int fd, uintptr_t low, uintptr_t end,
							 struct tek_run *run)
{
	uint64_t entries[ENTRIES];
	uintptr_t page = low;

	*run = (struct tek_run){0};
	while (page < end) {
		size_t pages = (end - page) / tek__page_bytes;
		size_t bytes = (pages < ENTRIES ? pages : ENTRIES) * sizeof(entries[0]);
		off64_t offset = (off64_t)(page / tek__page_bytes * sizeof(entries[0]));
		ssize_t count = pread64(fd, entries, bytes, offset);
		if (count < (ssize_t)sizeof(entries[0]))
			return false;
		for (size_t i = 0; i < (size_t)count / sizeof(entries[0]); i++) {
			if (extend(run, page, entries[i] & PAGEMAP_USED))
				return true;
			page += tek__page_bytes;
		}
	}
	if (run->low == run->end)
		*run = (struct tek_run){end, end, false};
	return true;
}

/*
 * Many lists of system calls that a process may make, such as @system-service of systemd, are
 * without mincore(2).
 */
static bool may_ask_mincore(void)
{
	return tek__present_ways & TEK_PRESENT_MINCORE &&
	       syscall(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0) == 0;
}

/*
 * Where nothing is mapped it fails, page by page: a stack that is mapped in part is looked at so.
 */
__attribute__((cold, noinline)) static bool ask_mincore(uintptr_t low, uintptr_t end,
							struct tek_run *run)
{
	unsigned char vector[VECTOR];
	uintptr_t page = low;

	*run = (struct tek_run){0};
	while (page < end) {
		size_t pages = (end - page) / tek__page_bytes;
		if (pages > VECTOR)
			pages = VECTOR;
		while (mincore((void *)page, pages * tek__page_bytes, vector)) {
			if (errno != ENOMEM)
				return false;
			if (pages > 1) {
				pages /= 2;
				continue;
			}
			vector[0] = 0;
			break;
		}
		for (size_t i = 0; i < pages; i++) {
			if (extend(run, page, vector[i] & 1))
				return true;
			page += tek__page_bytes;
		}
	}
	if (run->low == run->end)
		*run = (struct tek_run){end, end, false};
	return true;
}

static bool can_scan(void)
{
	return tek__present_ways & TEK_PRESENT_SCAN &&
	       !atomic_load_explicit(&without_scan, memory_order_relaxed);
}

/* By the file: the program may have closed and reused its descriptor. */
static bool ask_file(uintptr_t low, uintptr_t end, unsigned int most, struct tek_run *run)
{
	int fd = descriptor();

	if (fd < 0)
		return false;
	if (can_scan() && scan(fd, low, end, most, run))
		return true;
	if (!is_ours(fd)) {
		fd = open_again(fd);
		if (fd < 0)
			return false;
		if (can_scan() && scan(fd, low, end, most, run))
			return true;
	}
	if (can_scan() && errno == ENOTTY)
		atomic_store(&without_scan, true);
	return tek__present_ways & TEK_PRESENT_PAGEMAP && is_ours(fd) &&
	       read_pagemap(fd, low, end, run);
}

bool tek__present_lowest(uintptr_t low, uintptr_t end, unsigned int most, struct tek_run *run)
{
	const uintptr_t mask = tek__page_bytes - 1;
	int saved = errno, cancellation;

	/* A thread that is being cancelled may not have begun with its own work yet. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
	low &= ~mask;
	end = (end + mask) & ~mask;
	/* In a child that has not noticed yet that it is one the file is its parent's. */
	bool known = tek__process_is_known() &&
		     tek__present_ways & (TEK_PRESENT_SCAN | TEK_PRESENT_PAGEMAP) &&
		     ask_file(low, end, most, run);
	if (!known && may_ask_mincore())
		known = ask_mincore(low, end, run);
	pthread_setcancelstate(cancellation, NULL);
	errno = saved;
	return known;
}

void tek__present_forget(void)
{
	int fd = atomic_load(&open_fd);

	if (fd >= 0 && is_ours(fd))
		close(fd);
	atomic_store(&open_fd, NONE);
}
