/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "threads/table.h"

#include "base/channel.h"
#include "base/clock.h"
#include "base/module.h"
#include "base/owner.h"
#include "base/page.h"
#include "base/procfs.h"
#include "base/time_namespace.h"
#include "threads/put_words.h"
#include "threads/rundir.h"

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
	READY_STEP = 64, /* slots that are prepared at a time: one page of sides */
};

static struct {
	char *base;          /* newest mapping, from offset 0; older ones stay mapped */
	unsigned int chunks; /* chunks within that mapping */
	unsigned int ready;  /* slots with memory */
	bool failed;         /* no table can be had; not tried again */
	unsigned int kinds;  /* of threads, for which there is room */
	bool shared;         /* it is a file's memory, which may run out */
	bool awaited;    /* a process waits for it to end: programs overwrite their environment */
	char path[512];  /* its file's name; empty: none */
	char ended[512]; /* the name it has once an exec has succeeded; empty: as it was */
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
	/* Where the file lies on a disk the kernel would clear 256 KiB ahead of the first page. */
	madvise(map, bytes, MADV_RANDOM);
	mappings[mapping_count].address = map;
	mappings[mapping_count].bytes = bytes;
	mapping_count++;
	__atomic_store_n(&table.base, map, __ATOMIC_RELEASE);
	table.chunks = chunks;
	return true;
}

static void retire(const char *path);

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
			retire(table.path); /* of a dead process that had our pid */
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
	table.awaited = tek__rundir_is_given();
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
	if (table.failed)
		return false;
	if (open_file() && !populate(table.base, sizeof(struct tek_table_header))) {
		unlink(table.path);
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

/*
 * The sequence lock. The holder of the process's lock is the one writer. All stores are release
 * stores, so that they become visible in their order. Readers load with acquire (abi/tek_table.h).
 * ThreadSanitizer understands this; it does not understand fences.
 */
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
	tek__put_words(&slot.record->start_ns, &record->start_ns, sizeof(record->start_ns));
	tek__put_words(&slot.record->start_routine, &record->start_routine,
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
	if (side) {
		tek__put_words(slot.side, side, offsetof(struct tek_side, role));
		/* The engine writes the fields before it by themselves. */
		__atomic_store_n(&slot.side->lifted_for, side->lifted_for, __ATOMIC_RELAXED);
	}
	/* In whole words: readers do not look behind its end. */
	if (role && record->role_bytes)
		tek__put_words(slot.side->role, role, (record->role_bytes + 8u) / 8 * 8);
	end_write(slot, seq);
}

/* The other fields keep their values, which are no longer valid. */
void tek__table_clear(struct tek_slot slot)
{
	tek_u32 seq = begin_write(slot);
	__atomic_store_n(&slot.record->tid, 0, __ATOMIC_RELEASE);
	end_write(slot, seq);
}

struct tek_kind *tek__table_kind_at(unsigned int number)
{
	char *base = __atomic_load_n(&table.base, __ATOMIC_ACQUIRE);
	return base && number ? (struct tek_kind *)(base + TEK_KINDS_OFFSET) + (number - 1) : NULL;
}

struct tek_kind *tek__table_new_kind(unsigned int number)
{
	struct tek_kind *kind = tek__table_kind_at(number);

	if (!kind || number > TEK_MAX_KINDS)
		return NULL;
	/* A page at a time, once. */
	const unsigned int step = (unsigned int)(tek__page_bytes / sizeof(*kind));
	while (number > table.kinds) {
		if (!populate(tek__table_kind_at(table.kinds + 1), step * sizeof(*kind)))
			return NULL;
		table.kinds += step;
	}
	return kind;
}

/*
 * Handlers of overflows write overflow_bytes, overflows and stack_flags meanwhile: so this adds to
 * the sequence number and to stack_flags, and leaves the other two alone (docs/design/table.md).
 */
void tek__table_write_kind(unsigned int number, const struct tek_kind *kind)
{
	struct tek_table_header *header = tek__table_header();
	struct tek_kind *place = tek__table_kind_at(number);

	__atomic_fetch_add(&place->seq, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&place->threads, kind->threads, __ATOMIC_RELEASE);
	tek__put_words(&place->function, &kind->function, sizeof(kind->function));
	tek__put_words(&place->call_site, &kind->call_site, sizeof(kind->call_site));
	tek__put_words(&place->stack_bytes, &kind->stack_bytes, sizeof(kind->stack_bytes));
	__atomic_store_n(&place->peak_bytes, kind->peak_bytes, __ATOMIC_RELEASE);
	__atomic_store_n(&place->bound_bytes, kind->bound_bytes, __ATOMIC_RELEASE);
	__atomic_fetch_or(&place->stack_flags, kind->stack_flags, __ATOMIC_RELEASE);
	__atomic_store_n(&place->label_is, kind->label_is, __ATOMIC_RELEASE);
	tek__put_words(place->label, kind->label, sizeof(kind->label));
	__atomic_fetch_add(&place->seq, 1, __ATOMIC_RELEASE);
	if (number > header->kinds)
		__atomic_store_n(&header->kinds, number, __ATOMIC_RELEASE);
}

/* The half of a number of 64 bits that the processor can exchange at once: its low one. */
static uintptr_t *low_word(tek_u64 *number)
{
	size_t above = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof(*number) - sizeof(uintptr_t)
							      : 0;
	return (uintptr_t *)((char *)number + above);
}

void tek__table_kind_overflowed(unsigned int number, size_t bytes)
{
	struct tek_kind *place = tek__table_kind_at(number);

	if (!place)
		return;
	uintptr_t *largest = low_word(&place->overflow_bytes);
	uintptr_t before = __atomic_load_n(largest, __ATOMIC_RELAXED);
	__atomic_fetch_add(&place->seq, 2, __ATOMIC_RELAXED);
	while (before < bytes && !__atomic_compare_exchange_n(largest, &before, bytes, false,
							      __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
	__atomic_fetch_or(&place->stack_flags, TEK_STACK_OVERFLOWED, __ATOMIC_RELEASE);
	__atomic_fetch_add(&place->overflows, 1, __ATOMIC_RELEASE);
	__atomic_fetch_add(&place->seq, 2, __ATOMIC_RELEASE);
}

void tek__table_list_modules(const struct tek_module *modules, unsigned int count,
			     unsigned int program)
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
	__atomic_store_n(&header->program_module, program, __ATOMIC_RELEASE);
}

_Static_assert(TEK_WORKERS_OFFSET == TEK_KINDS_OFFSET + TEK_MAX_KINDS * sizeof(struct tek_kind) &&
		       TEK_WORKERS_OFFSET + TEK_MAX_WORKERS * sizeof(struct tek_worker_place) <=
			       TEK_TABLE_HEADER_BYTES,
	       "they have their place in the file");

struct tek_worker_place *tek__table_list_workers(unsigned int count)
{
	struct tek_table_header *header = tek__table_header();
	struct tek_worker_place *places = (struct tek_worker_place *)(table.base +
								      TEK_WORKERS_OFFSET);

	if (count > TEK_MAX_WORKERS || !populate(places, count * sizeof(*places)))
		return NULL;
	__atomic_store_n(&header->workers, count, __ATOMIC_RELEASE);
	return places;
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

/*
 * The name under which a table stays. The pid and the start time of this process may recur; the
 * time in the name does not.
 */
static bool ended_path(char *ended, const char *path)
{
	const char *slash = strrchr(path, '/');
	int directory = slash ? (int)(slash - path) : 0;

	return snprintf(ended, sizeof(table.ended), "%.*s/%d-%llu.ended", directory, path,
			(int)tek__owner->pid(),
			(unsigned long long)tek__now(CLOCK_BOOTTIME)) < (int)sizeof(table.ended);
}

/* Whether a stack was measured, or ran over, in the process that a table of ours was. */
static bool has_news(const struct tek_kind *kinds, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		if (kinds[i].threads || kinds[i].overflows)
			return true;
	return false;
}

/* The same of a table in a file. */
static bool file_has_news(const char *path)
{
	struct tek_table_header header;
	struct tek_kind kinds[16];
	bool news = false;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return false;
	if (pread(fd, &header, sizeof(header), 0) == sizeof(header) &&
	    header.magic == TEK_TABLE_MAGIC && header.version == TEK_ABI_VERSION &&
	    header.kinds <= TEK_MAX_KINDS) {
		for (unsigned int i = 0; !news && i < header.kinds;) {
			ssize_t got = pread(fd, kinds, sizeof(kinds),
					    (off_t)(TEK_KINDS_OFFSET + i * sizeof(*kinds)));
			unsigned int count = got < 0 ? 0 : (unsigned int)got / sizeof(*kinds);
			if (!count)
				break;
			if (count > header.kinds - i)
				count = header.kinds - i;
			news = has_news(kinds, count);
			i += count;
		}
	}
	close(fd);
	return news;
}

/* A table that an earlier program left under this pid. */
static void retire(const char *path)
{
	char ended[sizeof(table.ended)];

	if (!tek__rundir_is_given() || !file_has_news(path) || !ended_path(ended, path) ||
	    rename(path, ended))
		unlink(path);
}

void tek__table_remove_stale(void)
{
	char path[sizeof(table.path)], hidden[sizeof(table.path)];
	if (table.base || !tek__rundir_table(path, sizeof(path)))
		return;
	if (!tek__rundir_is_foreign(path))
		retire(path);
	if (hidden_path(hidden, path) && !tek__rundir_is_foreign(hidden))
		retire(hidden);
}

/* Whether this process's table is to stay once it has ended; then *ended is its name. */
static bool is_to_stay(char *ended)
{
	const unsigned int listed = tek__table_header()->kinds;
	const unsigned int count = listed < table.kinds ? listed : table.kinds;

	return table.awaited && has_news(tek__table_kind_at(1), count) &&
	       ended_path(ended, table.path);
}

/* An exec that succeeds is the end of what the table is about: it gets its last name now. */
void tek__table_hide(void)
{
	if (!table.path[0])
		return;
	if (!is_to_stay(table.ended) && !hidden_path(table.ended, table.path))
		table.ended[0] = '\0';
	else if (rename(table.path, table.ended))
		table.ended[0] = '\0';
}

/* If it is gone, another process took it for the table of an ended process. */
void tek__table_show(void)
{
	if (table.ended[0] && rename(table.ended, table.path))
		table.path[0] = '\0';
	table.ended[0] = '\0';
}

void tek__table_end(void)
{
	char ended[sizeof(table.ended)];

	if (table.path[0] && (!is_to_stay(ended) || rename(table.path, ended)))
		unlink(table.path);
	table.path[0] = '\0';
}
