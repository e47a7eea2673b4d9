/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "threads/table.h"

#include "base/channel.h"
#include "base/module.h"
#include "base/owner.h"
#include "base/page.h"
#include "base/procfs.h"
#include "base/time_namespace.h"
#include "threads/put_words.h"
#include "threads/rundir.h"
#include "threads/table_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum {
	FILE_BYTES = TEK_TABLE_HEADER_BYTES + TEK_MAX_CHUNKS * TEK_TABLE_CHUNK_BYTES,
	READY_STEP = 64, /* slots that are prepared at a time: one page of sides */
};

struct tek_table_state tek__table;

/* Mappings made so far, to replace them in a forked child: one for each doubling of the chunks. */
static struct {
	void *address;
	size_t bytes;
} mappings[8];
static unsigned int mapping_count;

static size_t bytes_for(unsigned int chunks)
{
	return TEK_TABLE_HEADER_BYTES + (size_t)chunks * TEK_TABLE_CHUNK_BYTES;
}

static bool keep_mapping(void *map, size_t bytes, unsigned int chunks)
{
	if (map == MAP_FAILED)
		return false;
	/* Where the file lies on a disk the kernel would clear 256 KiB ahead of the first page. */
	madvise(map, bytes, MADV_RANDOM);
	mappings[mapping_count].address = map;
	mappings[mapping_count].bytes = bytes;
	mapping_count++;
	__atomic_store_n(&tek__table.base, map, __ATOMIC_RELEASE);
	tek__table.chunks = chunks;
	return true;
}

/*
 * A file of the full size, sparse, of which the first chunk is mapped.  No file
 * descriptor is kept: programs close descriptors that they do not know, and
 * would then have ours point at a file of theirs.
 */
static bool open_file(void)
{
	struct rlimit limit;
	int fd = -1;

	/* Beyond RLIMIT_FSIZE ftruncate() would raise SIGXFSZ in the program. */
	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur < FILE_BYTES)
		return false;
	if (!tek__rundir_table(tek__table.path, sizeof(tek__table.path)) || !tek__rundir_prepare())
		return false;
	for (int attempt = 0; attempt < 2 && fd < 0; attempt++) {
		fd = open(tek__table.path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			  0644);
		if (fd < 0 && errno == EEXIST && !tek__rundir_is_foreign(tek__table.path))
			tek__table_retire(tek__table.path); /* of a dead process that had our pid */
	}
	if (fd < 0)
		return false;
	bool mapped = ftruncate(fd, FILE_BYTES) == 0 &&
		      keep_mapping(
			      mmap(NULL, bytes_for(1), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
			      bytes_for(1), 1);
	if (!mapped)
		unlink(tek__table.path);
	close(fd);
	tek__table.shared = mapped;
	tek__table.awaited = tek__rundir_is_given();
	return mapped;
}

static bool open_private(void)
{
	tek__table.path[0] = '\0';
	return keep_mapping(mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
			    FILE_BYTES, TEK_MAX_CHUNKS);
}

bool tek__table_populate(void *address, size_t bytes)
{
	uintptr_t page = tek__page_bytes;
	uintptr_t from = (uintptr_t)address & ~(page - 1);
	uintptr_t to = ((uintptr_t)address + bytes + page - 1) & ~(page - 1);

	if (!tek__table.shared)
		return true;
	return madvise((void *)from, to - from, MADV_POPULATE_WRITE) == 0;
}

static void fill_header(void)
{
	struct tek_table_header *header = tek__table_header();
	struct tek_time_offsets offsets;
	uint64_t stack_start = 0;

	header->version = TEK_ABI_VERSION;
	header->pid = (tek_u32)tek__owner->pid();
	header->start_ns = tek__time_offsets(&offsets) ? tek__start_ns(tek__owner->pid(), &offsets)
						       : 0;
	header->boot_offset_ns = offsets.boottime_ns;
	tek__procfs_stat(tek__owner->pid(), TEK_STAT_STACK_START, &stack_start);
	header->image = (tek_u32)(stack_start >> TEK_IMAGE_SHIFT);
	header->pid_namespace = tek__procfs_pid_namespace();
	header->record_bytes = sizeof(struct tek_record);
	header->side_bytes = sizeof(struct tek_side);
	header->page_bytes = (tek_u32)tek__page_bytes;
	header->chunks = TEK_MAX_CHUNKS;
	tek__owner->describe_stacks(header);
	snprintf((char *)header->program, sizeof(header->program), "%s", tek__channel_program());
	/* A reader that sees the whole magic number sees the rest. */
	tek__put_words(&header->magic, &(const tek_u64){TEK_TABLE_MAGIC}, sizeof(header->magic));
}

static bool open_table(void)
{
	if (tek__table.failed)
		return false;
	if (open_file() && !tek__table_populate(tek__table.base, sizeof(struct tek_table_header))) {
		unlink(tek__table.path);
		tek__table_forget();
	}
	if (!tek__table.base && !open_private()) {
		tek__table.failed = true;
		return false;
	}
	fill_header();
	tek__modules_list();
	return true;
}

/*
 * Map twice as many chunks.  mremap() with an old size of 0 maps the same file
 * once more without a file descriptor (mremap(2), for shared mappings), and the
 * old mapping stays, so pointers into it remain good.
 */
static bool grow(void)
{
	unsigned int chunks = tek__table.chunks * 2;
	if (chunks > TEK_MAX_CHUNKS)
		return false;
	return keep_mapping(mremap(tek__table.base, 0, bytes_for(chunks), MREMAP_MAYMOVE),
			    bytes_for(chunks), chunks);
}

struct tek_slot tek__table_at(unsigned int index)
{
	char *base = __atomic_load_n(&tek__table.base, __ATOMIC_ACQUIRE);
	if (!base)
		return (struct tek_slot){0};
	char *chunk = base + bytes_for(index / TEK_CHUNK_SLOTS);
	unsigned int within = index % TEK_CHUNK_SLOTS;
	return (struct tek_slot){
		.record = (struct tek_record *)chunk + within,
		.side = (struct tek_side *)(chunk + TEK_CHUNK_SIDE_OFFSET) + within,
	};
}

static bool make_ready(unsigned int index)
{
	if (index >= TEK_MAX_SLOTS)
		return false;
	while (index >= tek__table.chunks * TEK_CHUNK_SLOTS)
		if (!grow())
			return false;
	while (index >= tek__table.ready) {
		struct tek_slot first = tek__table_at(tek__table.ready);
		if (!tek__table_populate(first.record, READY_STEP * sizeof(*first.record)) ||
		    !tek__table_populate(first.side, READY_STEP * sizeof(*first.side)))
			return false;
		tek__table.ready += READY_STEP;
	}
	return true;
}

bool tek__table_slot(unsigned int index, struct tek_slot *slot)
{
	if (!tek__table.base && !open_table())
		return false;
	if (!make_ready(index))
		return false;
	*slot = tek__table_at(index);
	return true;
}

struct tek_table_header *tek__table_header(void)
{
	return (struct tek_table_header *)tek__table.base;
}

void tek__table_make_private(void)
{
	for (unsigned int i = 0; i < mapping_count; i++)
		mmap(mappings[i].address, mappings[i].bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	tek__table.path[0] = '\0';
}

void tek__table_forget(void)
{
	tek__table_make_private();
	mapping_count = 0;
	memset(&tek__table, 0, sizeof(tek__table));
}
