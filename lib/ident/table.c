/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ident/table.h"

#include "ident/module.h"
#include "ident/process.h"
#include "ident/procfs.h"
#include "ident/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum {
	FILE_BYTES = TEK_TABLE_HEADER_BYTES + TEK_MAX_CHUNKS * TEK_TABLE_CHUNK_BYTES,
	READY_STEP = 64, /* slots whose memory is made ready at a time: one page of sides */
};

static struct {
	char *base;          /* newest mapping, from offset 0; older ones stay mapped */
	unsigned int chunks; /* chunks within that mapping */
	unsigned int ready;  /* slots whose memory is there */
	bool failed;         /* no table can be had; not tried again */
	bool shared;         /* it is a file's memory, which may run out */
	char path[512];      /* its file's name; empty: none */
} table;

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
	mappings[mapping_count].address = map;
	mappings[mapping_count].bytes = bytes;
	mapping_count++;
	__atomic_store_n(&table.base, map, __ATOMIC_RELEASE);
	table.chunks = chunks;
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
	if (!tek__rundir_table(table.path, sizeof(table.path)) || !tek__rundir_prepare())
		return false;
	for (int attempt = 0; attempt < 2 && fd < 0; attempt++) {
		fd = open(table.path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
		if (fd < 0 && errno == EEXIST && !tek__rundir_is_foreign(table.path))
			unlink(table.path); /* of a dead process that had our pid */
	}
	if (fd < 0)
		return false;
	bool mapped = ftruncate(fd, FILE_BYTES) == 0 &&
		      keep_mapping(
			      mmap(NULL, bytes_for(1), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
			      bytes_for(1), 1);
	if (!mapped)
		unlink(table.path);
	close(fd);
	table.shared = mapped;
	return mapped;
}

static bool open_private(void)
{
	table.path[0] = '\0';
	return keep_mapping(mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
			    FILE_BYTES, TEK_MAX_CHUNKS);
}

/*
 * Have the kernel provide the memory now.  Touching a page that a full tmpfs
 * cannot provide would kill the program with SIGBUS; this only fails.
 */
static bool populate(void *address, size_t bytes)
{
	uintptr_t page = tek__page_bytes;
	uintptr_t from = (uintptr_t)address & ~(page - 1);
	uintptr_t to = ((uintptr_t)address + bytes + page - 1) & ~(page - 1);

	if (!table.shared)
		return true;
	return madvise((void *)from, to - from, MADV_POPULATE_WRITE) == 0;
}

/*
 * The sequence lock.  There is one writer, the holder of the process's lock.
 * Each store into the record is a release store, so none can become visible
 * before the odd number, and the even number, a release store too, not before
 * any of them.  Readers load the same words with acquire (abi/tek_abi.h).
 * ThreadSanitizer understands this; it does not understand fences.
 */
static void put_words(void *to, const void *from, size_t bytes)
{
	/* Words of the processor: not every one of 32 bits can store 64 at once. */
	uintptr_t *target = to;
	for (size_t i = 0; i < bytes / sizeof(uintptr_t); i++) {
		uintptr_t word; /* a role need not be aligned */
		memcpy(&word, (const char *)from + i * sizeof(word), sizeof(word));
		__atomic_store_n(target + i, word, __ATOMIC_RELEASE);
	}
}

static void fill_header(void)
{
	struct tek_table_header *header = tek__table_header();
	uint64_t start_ticks = 0;

	header->version = TEK_ABI_VERSION;
	header->pid = (tek_u32)tek__pid();
	tek__procfs_stat(tek__pid(), TEK_STAT_START_TICKS, &start_ticks);
	header->start_ticks = start_ticks;
	header->pid_namespace = tek__procfs_pid_namespace();
	header->record_bytes = sizeof(struct tek_record);
	header->side_bytes = sizeof(struct tek_side);
	header->page_bytes = (tek_u32)tek__page_bytes;
	header->chunks = TEK_MAX_CHUNKS;
	snprintf((char *)header->program, sizeof(header->program), "%s",
		 program_invocation_short_name);
	/* A reader that sees the whole magic number sees the rest. */
	put_words(&header->magic, &(const tek_u64){TEK_TABLE_MAGIC}, sizeof(header->magic));
}

static bool open_table(void)
{
	if (table.failed)
		return false;
	if (open_file() && !populate(table.base, sizeof(struct tek_table_header))) {
		tek__table_unlink();
		tek__table_forget();
	}
	if (!table.base && !open_private()) {
		table.failed = true;
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
	unsigned int chunks = table.chunks * 2;
	if (chunks > TEK_MAX_CHUNKS)
		return false;
	return keep_mapping(mremap(table.base, 0, bytes_for(chunks), MREMAP_MAYMOVE),
			    bytes_for(chunks), chunks);
}

struct tek_slot tek__table_at(unsigned int index)
{
	char *base = __atomic_load_n(&table.base, __ATOMIC_ACQUIRE);
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
	while (index >= table.chunks * TEK_CHUNK_SLOTS)
		if (!grow())
			return false;
	while (index >= table.ready) {
		struct tek_slot first = tek__table_at(table.ready);
		if (!populate(first.record, READY_STEP * sizeof(*first.record)) ||
		    !populate(first.side, READY_STEP * sizeof(*first.side)))
			return false;
		table.ready += READY_STEP;
	}
	return true;
}

bool tek__table_slot(unsigned int index, struct tek_slot *slot)
{
	if (!table.base && !open_table())
		return false;
	if (!make_ready(index))
		return false;
	*slot = tek__table_at(index);
	return true;
}

static tek_u32 begin_write(struct tek_slot slot)
{
	tek_u32 seq = __atomic_load_n(&slot.record->seq, __ATOMIC_RELAXED);
	__atomic_store_n(&slot.record->seq, seq + 1, __ATOMIC_RELAXED);
	return seq;
}

static void end_write(struct tek_slot slot, tek_u32 seq)
{
	__atomic_store_n(&slot.record->seq, seq + 2, __ATOMIC_RELEASE);
}

static void write_record(struct tek_slot slot, const struct tek_record *record)
{
	/* By fields: a load of words that were just put together from bytes stalls. */
#define STORE(field) __atomic_store_n(&slot.record->field, record->field, __ATOMIC_RELEASE)
	STORE(tid);
	put_words(&slot.record->start_ns, &record->start_ns, sizeof(record->start_ns));
	put_words(&slot.record->start_routine, &record->start_routine,
		  sizeof(record->start_routine));
	STORE(stack_pages);
	STORE(peak_bytes);
	STORE(bound_pages);
	STORE(role_bytes);
	STORE(policy);
	STORE(priority);
	STORE(place);
	STORE(flags);
#undef STORE
}

void tek__table_write(struct tek_slot slot, const struct tek_record *record,
		      const struct tek_side *side, const char *role)
{
	tek_u32 seq = begin_write(slot);
	write_record(slot, record);
	if (side)
		put_words(slot.side, side, offsetof(struct tek_side, role));
	/* In whole words: readers do not look behind its end. */
	if (role && record->role_bytes)
		put_words(slot.side->role, role, (record->role_bytes + 8u) / 8 * 8);
	end_write(slot, seq);
}

/* What the rest still says counts no more. */
void tek__table_clear(struct tek_slot slot)
{
	tek_u32 seq = begin_write(slot);
	__atomic_store_n(&slot.record->tid, 0, __ATOMIC_RELEASE);
	end_write(slot, seq);
}

void tek__table_list_modules(const struct tek_module *modules, unsigned int count)
{
	struct tek_table_header *header = tek__table_header();
	if (!header)
		return;
	struct tek_module *places = (struct tek_module *)(table.base + TEK_MODULES_OFFSET);
	for (unsigned int i = header->modules; i < count; i++) {
		if (!populate(&places[i], sizeof(places[i])))
			return;
		places[i] = modules[i];
		__atomic_store_n(&header->modules, i + 1, __ATOMIC_RELEASE);
	}
}

struct tek_table_header *tek__table_header(void)
{
	return (struct tek_table_header *)table.base;
}

void tek__table_make_private(void)
{
	for (unsigned int i = 0; i < mapping_count; i++)
		mmap(mappings[i].address, mappings[i].bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	table.path[0] = '\0';
}

void tek__table_forget(void)
{
	tek__table_make_private();
	mapping_count = 0;
	memset(&table, 0, sizeof(table));
}

/* Where the table is while a program is being replaced that may come back. */
static bool hidden_path(char *hidden, const char *path)
{
	return snprintf(hidden, sizeof(table.path), "%s~", path) < (int)sizeof(table.path);
}

void tek__table_remove_stale(void)
{
	char path[sizeof(table.path)], hidden[sizeof(table.path)];
	if (table.base || !tek__rundir_table(path, sizeof(path)))
		return;
	if (!tek__rundir_is_foreign(path))
		unlink(path);
	if (hidden_path(hidden, path) && !tek__rundir_is_foreign(hidden))
		unlink(hidden);
}

void tek__table_hide(void)
{
	char hidden[sizeof(table.path)];
	if (table.path[0] && hidden_path(hidden, table.path))
		rename(table.path, hidden);
}

void tek__table_show(void)
{
	char hidden[sizeof(table.path)];
	if (table.path[0] && hidden_path(hidden, table.path))
		rename(hidden, table.path);
}

void tek__table_unlink(void)
{
	if (table.path[0])
		unlink(table.path);
	table.path[0] = '\0';
}
