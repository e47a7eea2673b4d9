/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/next.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The symbol tables of a shared object: elf(5), and DT_GNU_HASH. */
struct file {
	uintptr_t base;
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Half) * versions; /* NULL: the symbols have no versions */
	const uint32_t *hash;
};

/* Set in the version of a symbol if another version is the default one. */
#define HIDDEN_VERSION 0x8000u

/* The loader has relocated most of these addresses on most processors; the others are offsets. */
static const void *address_of(const struct link_map *map, ElfW(Addr) value)
{
	return (const void *)(value < map->l_addr ? map->l_addr + value : value);
}

static bool read_file(const struct link_map *map, struct file *file)
{
	*file = (struct file){.base = map->l_addr};
	for (const ElfW(Dyn) *entry = map->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
		const void *address = address_of(map, entry->d_un.d_ptr);
		switch (entry->d_tag) {
		case DT_SYMTAB:
			file->symbols = address;
			break;
		case DT_STRTAB:
			file->strings = address;
			break;
		case DT_VERSYM:
			file->versions = address;
			break;
		case DT_GNU_HASH:
			file->hash = address;
			break;
		}
	}
	return file->symbols && file->strings && file->hash;
}

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	while (*name)
		hash = hash * 33 + (unsigned char)*name++;
	return hash;
}

static bool is_default(const struct file *file, uint32_t i, const char *name)
{
	const ElfW(Sym) *symbol = &file->symbols[i];

	return symbol->st_shndx != SHN_UNDEF &&
	       strcmp(file->strings + symbol->st_name, name) == 0 &&
	       !(file->versions && file->versions[i] & HIDDEN_VERSION);
}

/*
 * The default version of a function in a shared object.  NULL: it defines none, or selects one at
 * run time (IFUNC).
 */
static void *default_in(const struct link_map *map, const char *name)
{
	struct file file;

	if (!read_file(map, &file))
		return NULL;
	const uint32_t buckets = file.hash[0], first = file.hash[1], bloom_words = file.hash[2];
	const uint32_t *bucket = file.hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *chain = bucket + buckets;
	const uint32_t hash = hash_of(name);
	for (uint32_t i = buckets ? bucket[hash % buckets] : 0; i >= first && i; i++) {
		const ElfW(Sym) *symbol = &file.symbols[i];
		if ((chain[i - first] | 1) == (hash | 1) && is_default(&file, i, name))
			return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC
				       ? (void *)(file.base + symbol->st_value)
				       : NULL;
		if (chain[i - first] & 1)
			break;
	}
	return NULL;
}

static const struct link_map *file_of(void *address)
{
#if __GLIBC_PREREQ(2, 35)
	struct dl_find_object object;

	return _dl_find_object(address, &object) == 0 ? object.dlfo_link_map : NULL;
#else
	struct link_map *map;
	Dl_info info;

	return dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) ? map : NULL;
#endif
}

static void *default_beside(void *address, const char *name)
{
	const struct link_map *map = file_of(address);

	return map ? default_in(map, name) : NULL;
}

void *tek__next_definition(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);
	void *newest = found ? default_beside(found, name) : NULL;

	return newest ? newest : found;
}

void *tek__c_library_definition(const char *name)
{
	/*
	 * No other library defines gnu_get_libc_version().  The string that it returns is in the C
	 * library.  The function's address may be in the program's PLT.
	 */
	return default_beside((void *)(uintptr_t)gnu_get_libc_version(), name);
}
