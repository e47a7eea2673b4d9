/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/zones.h"

#include "uthread/here.h"
#include "uthread/monitor.h"

#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Beginnings of the names of files. */
static const char *const kept[] = {
	"libc.so",     "libc-",     "ld-linux", "ld-",      "ld64",    "libpthread",  "libdl",
	"librt.so",    "libresolv", "libnss_",  "libgcc_s", "libtek",  "libjemalloc", "libtcmalloc",
	"libmimalloc", "libasan",   "libtsan",  "libubsan", "liblsan", "libhwasan",
};

struct range {
	uintptr_t from, to;
	bool kept;
};

#define RANGES 4096
struct ranges {
	unsigned int count;
	struct range of[RANGES];
};

/* One is read while the other one is filled; a reader in a signal handler takes no time to speak of. */
static struct ranges both[2];
static _Atomic(struct ranges *) current;
static atomic_bool asked;
static atomic_uint found_times;

static bool is_kept(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		if (strncmp(name, kept[i], strlen(kept[i])) == 0)
			return true;
	}
	return false;
}

static int add(struct dl_phdr_info *module, size_t size, void *context)
{
	struct ranges *ranges = context;

	(void)size;
	for (int i = 0; i < module->dlpi_phnum && ranges->count < RANGES; i++) {
		const ElfW(Phdr) *part = &module->dlpi_phdr[i];
		if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
			continue;
		uintptr_t from = module->dlpi_addr + part->p_vaddr;
		ranges->of[ranges->count++] = (struct range){.from = from,
							     .to = from + part->p_memsz,
							     .kept = is_kept(module->dlpi_name)};
	}
	return 0;
}

static int by_address(const void *one, const void *other)
{
	const struct range *a = one, *b = other;
	return a->from < b->from ? -1 : a->from > b->from;
}

void tek__zones_find(void)
{
	struct ranges *next = atomic_load(&current) == &both[0] ? &both[1] : &both[0];

	next->count = 0;
	dl_iterate_phdr(add, next);
	qsort(next->of, next->count, sizeof(next->of[0]), by_address);
	atomic_store(&current, next);
	atomic_fetch_add(&found_times, 1);
}

void tek__zones_update(void)
{
	if (atomic_exchange(&asked, false))
		tek__zones_find();
}

/* NULL: it is in no library. */
static const struct range *range_of(const struct ranges *ranges, uintptr_t address)
{
	unsigned int low = 0, high = ranges->count;

	while (low < high) {
		unsigned int middle = (low + high) / 2;
		const struct range *range = &ranges->of[middle];
		if (address < range->from)
			high = middle;
		else if (address >= range->to)
			low = middle + 1;
		else
			return range;
	}
	return NULL;
}

bool tek__zones_allow(uintptr_t address)
{
	/* How often the ranges had been found when an unknown address was last asked about, plus one. */
	static atomic_uint unknown_at;
	const struct ranges *ranges = atomic_load(&current);
	const struct range *range = ranges ? range_of(ranges, address) : NULL;

	if (tek__here_contains(address))
		return false;
	if (range)
		return !range->kept;
	unsigned int times = atomic_load(&found_times);
	if (atomic_load(&unknown_at) == times)
		return true; /* nothing new was found: the program made this code */
	atomic_store(&unknown_at, times + 1);
	atomic_store(&asked, true);
	tek__monitor_wake();
	return false;
}
