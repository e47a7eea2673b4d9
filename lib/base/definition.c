/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Resolvers call this while the loader relocates our library (base/function.c.in), so nothing here
 * calls a function of another file; the compiler must not put in such a call either
 * (lib/base/meson.build).
 */
#include "base/definition.h"

#include <features.h>
#include <stddef.h>
#include <stdint.h>

/* The dynamic section, elf(5), of the file that contains this code. */
extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));

/*
 * The loader checks no version of a function that is found here.  It checks that of this one, which
 * glibc 2.34 has changed.  An older C library lacks functions that we call, and does not load ours.
 */
extern int __libc_start_main(void);
__attribute__((used)) static int (*const newest_version)(void) = __libc_start_main;

/* The symbol tables of a loaded file. */
struct tables {
	uintptr_t base;
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Half) * versions; /* NULL: the symbols have no versions */
	const uint32_t *gnu_hash;    /* NULL: only the following one */
	const ElfW(Word) * hash;     /* NULL: only the previous one */
	ElfW(Addr) name;             /* DT_SONAME, in `strings`; 0: the empty string */
};

/* Set in the version of a symbol if another version is the default one. */
#define HIDDEN_VERSION 0x8000u

/*
 * The loader has relocated most of these addresses on most processors; the other ones are offsets.
 */
static const void *address_of(const struct link_map *file, ElfW(Addr) value)
{
	return (const void *)(value < file->l_addr ? file->l_addr + value : value);
}

static bool read_tables(const struct link_map *file, struct tables *tables)
{
	*tables = (struct tables){.base = file->l_addr};
	for (const ElfW(Dyn) *entry = file->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
		const void *address = address_of(file, entry->d_un.d_ptr);
		switch (entry->d_tag) {
		case DT_SYMTAB:
			tables->symbols = address;
			break;
		case DT_STRTAB:
			tables->strings = address;
			break;
		case DT_VERSYM:
			tables->versions = address;
			break;
		case DT_GNU_HASH:
			tables->gnu_hash = address;
			break;
		case DT_HASH:
			tables->hash = address;
			break;
		case DT_SONAME:
			tables->name = entry->d_un.d_val;
			break;
		}
	}
	return tables->symbols && tables->strings && (tables->gnu_hash || tables->hash);
}

static bool is_same(const char *one, const char *other)
{
	while (*one && *one == *other) {
		one++;
		other++;
	}
	return *one == *other;
}

static bool is_default(const struct tables *tables, uint32_t i, const char *name)
{
	const ElfW(Sym) *symbol = &tables->symbols[i];

	return symbol->st_shndx != SHN_UNDEF &&
	       !(tables->versions && tables->versions[i] & HIDDEN_VERSION) &&
	       is_same(tables->strings + symbol->st_name, name);
}

/* As dividend % divisor, for which 32-bit ARM needs a function of libgcc. */
static uint32_t modulo(uint32_t dividend, uint32_t divisor)
{
	uint32_t rest = 0;

	for (int bit = 31; bit >= 0; bit--) {
		rest = rest << 1 | (dividend >> bit & 1);
		if (rest >= divisor)
			rest -= divisor;
	}
	return rest;
}

static uint32_t gnu_hash_of(const char *name)
{
	uint32_t hash = 5381;

	while (*name)
		hash = hash * 33 + (unsigned char)*name++;
	return hash;
}

/* The index of a symbol; 0: there is none. */
static uint32_t find_by_gnu_hash(const struct tables *tables, const char *name)
{
	const uint32_t *table = tables->gnu_hash;
	const uint32_t buckets = table[0], first = table[1], bloom_words = table[2];
	const uint32_t *bucket = table + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(*table));
	const uint32_t *chain = bucket + buckets;
	const uint32_t hash = gnu_hash_of(name);

	for (uint32_t i = buckets ? bucket[modulo(hash, buckets)] : 0; i >= first && i; i++) {
		if ((chain[i - first] | 1) == (hash | 1) && is_default(tables, i, name))
			return i;
		if (chain[i - first] & 1)
			break;
	}
	return 0;
}

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 0;

	while (*name) {
		hash = (hash << 4) + (unsigned char)*name++;
		hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
	}
	return hash;
}

static uint32_t find_by_hash(const struct tables *tables, const char *name)
{
	const uint32_t buckets = tables->hash[0];
	const uint32_t *bucket = tables->hash + 2, *chain = bucket + buckets;

	for (uint32_t i = buckets ? bucket[modulo(hash_of(name), buckets)] : 0; i; i = chain[i])
		if (is_default(tables, i, name))
			return i;
	return 0;
}

static bool find(const struct tables *tables, const char *name, struct tek_definition *definition)
{
	const uint32_t i = tables->gnu_hash ? find_by_gnu_hash(tables, name)
					    : find_by_hash(tables, name);

	if (!i)
		return false;
	const ElfW(Sym) *symbol = &tables->symbols[i];
	definition->address = (void *)(tables->base + symbol->st_value);
	definition->is_resolver = ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC;
	return true;
}

bool tek__defined_in(const struct link_map *file, const char *name,
		     struct tek_definition *definition)
{
	struct tables tables;

	return read_tables(file, &tables) && find(&tables, name, definition);
}

static const struct link_map *own_file_in(const struct link_map *first)
{
	const struct link_map *file = first;

	while (file && file->l_ld != _DYNAMIC)
		file = file->l_next;
	return file;
}

/* The first file of the namespace (dlmopen(3)) that contains this code. */
static const struct link_map *first_file(void)
{
#if __GLIBC_PREREQ(2, 35)
	if (_r_debug.r_version >= 2) {
		const struct r_debug_extended *namespace = (const void *)&_r_debug;
		for (; namespace; namespace = namespace->r_next)
			if (own_file_in(namespace->base.r_map))
				return namespace->base.r_map;
	}
#endif
	return _r_debug.r_map;
}

void tek__each_file_elsewhere(void (*visit)(struct link_map *file, void *value), void *value)
{
#if __GLIBC_PREREQ(2, 35)
	if (_r_debug.r_version < 2)
		return;
	const struct r_debug_extended *namespace = (const void *)&_r_debug;
	for (; namespace; namespace = namespace->r_next) {
		if (own_file_in(namespace->base.r_map))
			continue;
		for (struct link_map *file = namespace->base.r_map; file; file = file->l_next)
			visit(file, value);
	}
#else
	(void)visit, (void)value;
#endif
}

const struct link_map *tek__own_file(void)
{
	return own_file_in(first_file());
}

const struct link_map *tek__defining_file(const char *name, struct tek_definition *definition)
{
	const struct link_map *file = first_file();

	while (file && !tek__defined_in(file, name, definition))
		file = file->l_next;
	return file;
}

/*
 * The C library: the first file with a function that each program starts with, and with another one
 * that no library wraps.
 */
const struct link_map *tek__c_library_file(void)
{
	static const struct link_map *found; /* it is never unloaded */
	const struct link_map *file = __atomic_load_n(&found, __ATOMIC_RELAXED);
	struct tek_definition any;

	if (file)
		return file;
	file = first_file();
	while (file && !(tek__defined_in(file, "__libc_start_main", &any) &&
			 tek__defined_in(file, "gnu_get_libc_version", &any)))
		file = file->l_next;
	__atomic_store_n(&found, file, __ATOMIC_RELAXED);
	return file;
}

void *tek__c_library_function(const char *name)
{
	const struct link_map *file = tek__c_library_file();
	struct tek_definition definition;

	return file && tek__defined_in(file, name, &definition) && !definition.is_resolver
		       ? definition.address
		       : NULL;
}

static bool begins_with(const char *text, const char *beginning)
{
	while (*beginning && *text == *beginning) {
		text++;
		beginning++;
	}
	return *beginning == '\0';
}

/* The function of the first library of such a name that defines it; else that of the C library. */
static void *function_of(bool (*is_meant)(const char *library), const char *name)
{
	struct tek_definition definition;
	struct tables tables;

	for (const struct link_map *file = first_file(); file; file = file->l_next)
		if (read_tables(file, &tables) && is_meant(tables.strings + tables.name) &&
		    find(&tables, name, &definition) && !definition.is_resolver)
			return definition.address;
	return tek__c_library_function(name);
}

static bool is_engine(const char *library)
{
	return is_same(library, "libtek-uthread.so");
}

void *tek__engine_function(const char *name)
{
	return function_of(is_engine, name);
}

/* As libtek.so.0 or libtek-sync.so. */
static bool is_teks(const char *library)
{
	return begins_with(library, "libtek.so") || begins_with(library, "libtek-");
}

void *tek__shared_function(const char *name)
{
	return function_of(is_teks, name);
}
