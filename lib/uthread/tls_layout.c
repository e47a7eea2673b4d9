/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/tls_layout.h"

#include "base/definition.h"
#include "uthread/tls_glibc.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

enum {
	SMALL = 512, /* bytes: zeros are copied, too, rather than separated from their neighbours */
	GAP = 64,    /* bytes between two modules, for alignment, that are copied with them */
};

struct search {
	struct tek_tls_layout *layout;
	size_t capacity, count;
	bool is_begun;
};

static void note(struct search *search, size_t number, const ElfW(Phdr) * segments, size_t count)
{
	if (!number || search->count++ >= search->capacity)
		return;
	struct tek_tls_module *module = &search->layout->modules[search->layout->module_count++];
	*module = (struct tek_tls_module){.number = number};
	for (size_t i = 0; i < count; i++) {
		if (segments[i].p_type == PT_TLS) {
			module->image_bytes = segments[i].p_filesz;
			module->bytes = segments[i].p_memsz;
		}
	}
}

/* A file of another namespace, such as the C library that dlmopen(3) has loaded once more. */
static void note_elsewhere(struct link_map *file, void *search)
{
	const ElfW(Ehdr) *head = (const void *)file->l_addr;
	size_t number = 0;

	if (dlinfo(file, RTLD_DI_TLS_MODID, &number) == 0 && number && head &&
	    memcmp(head->e_ident, ELFMAG, SELFMAG) == 0)
		note(search, number, (const void *)((const char *)head + head->e_phoff),
		     head->e_phnum);
}

/* For dl_iterate_phdr(3), during which all lists of files stay as they are. */
static int note_module(struct dl_phdr_info *info, size_t size, void *argument)
{
	struct search *search = argument;

	(void)size;
	if (!search->is_begun)
		tek__each_file_elsewhere(note_elsewhere, search);
	search->is_begun = true;
	note(search, info->dlpi_tls_modid, info->dlpi_phdr, info->dlpi_phnum);
	return 0;
}

/* All modules with thread-local variables; modules that are loaded meanwhile are found later. */
static struct tek_tls_layout *list_modules(void)
{
	struct search search = {.capacity = 0};

	dl_iterate_phdr(note_module, &search);
	search.capacity = search.count;
	search.count = 0;
	search.is_begun = false;
	search.layout = calloc(1, sizeof(*search.layout) +
					  search.capacity * sizeof(struct tek_tls_module));
	if (search.layout)
		dl_iterate_phdr(note_module, &search);
	return search.layout;
}

static int compare_places(const void *one, const void *other)
{
	const struct tek_tls_module *a = one, *b = other;
	return (a->at > b->at) - (a->at < b->at);
}

/* In a new block each module is where its vector has it, or nowhere yet. */
static void find_places(struct tek_tls_layout *layout)
{
	const struct tek_tls_entry *vector = tek_ut__tls_vector(layout->model);

	for (size_t i = 0; i < layout->module_count; i++) {
		struct tek_tls_module *module = &layout->modules[i];
		if (module->number > (uintptr_t)vector[-1].value)
			continue;
		const struct tek_tls_entry *entry = &vector[module->number];
		if (!entry->value || entry->value == TEK_TLS_UNALLOCATED || entry->to_free)
			continue;
		module->in_block = true;
		module->at = (char *)entry->value - (char *)layout->model;
	}
	atomic_init(&layout->generation, (size_t)vector[0].value);
	qsort(layout->modules, layout->module_count, sizeof(layout->modules[0]), compare_places);
}

/* Pieces before `apart` are not extended. */
static void add_piece(struct tek_tls_layout *layout, size_t apart, ptrdiff_t at, size_t bytes,
		      bool zero)
{
	struct tek_tls_piece *last = layout->piece_count > apart
					     ? &layout->pieces[layout->piece_count - 1]
					     : NULL;

	if (!bytes)
		return;
	if (last && last->at + (ptrdiff_t)last->bytes <= at &&
	    at - (last->at + (ptrdiff_t)last->bytes) <= GAP && (!zero || bytes <= SMALL) &&
	    (!last->zero || last->bytes <= SMALL)) {
		last->bytes = (size_t)(at - last->at) + bytes;
		last->zero = false;
		return;
	}
	layout->pieces[layout->piece_count++] = (struct tek_tls_piece){
		.at = at, .bytes = bytes, .zero = zero};
}

static bool contains(const struct tek_tls_module *module, ptrdiff_t at)
{
	return module->in_block && module->at <= at && at < module->at + (ptrdiff_t)module->bytes;
}

static bool make_pieces(struct tek_tls_layout *layout)
{
	size_t apart = 0;

	layout->pieces = calloc(2 * layout->module_count + 1, sizeof(*layout->pieces));
	if (!layout->pieces)
		return false;
	for (size_t i = 0; i < layout->module_count; i++) {
		const struct tek_tls_module *module = &layout->modules[i];
		if (!module->in_block)
			continue;
		if (contains(module, tek_ut__glibc.error)) {
			layout->c_library = (struct tek_tls_piece){module->at, module->bytes,
								   false};
			apart = layout->piece_count;
			continue;
		}
		add_piece(layout, apart, module->at, module->image_bytes, false);
		add_piece(layout, apart, module->at + (ptrdiff_t)module->image_bytes,
			  module->bytes - module->image_bytes, true);
	}
	return layout->c_library.bytes != 0;
}

/*
 * Clears the bytes from `from` up to, but not including, `end`, except the kernel's area (rseq):
 * in glibc 2.41 that lies among the modules' variables.
 */
static void clear(uintptr_t block, ptrdiff_t from, ptrdiff_t end)
{
	const ptrdiff_t rseq_begin = tek_ut__glibc.rseq,
			rseq_end = rseq_begin + (ptrdiff_t)tek_ut__glibc.rseq_bytes;

	if (rseq_begin < end && from < rseq_end && tek_ut__glibc.rseq_bytes) {
		clear(block, from, rseq_begin);
		clear(block, rseq_end, end);
	} else if (from < end) {
		memset((char *)block + from, 0, (size_t)(end - from));
	}
}

void tek_ut__tls_layout_clear_surplus(const struct tek_tls_layout *layout, uintptr_t block)
{
	size_t bytes, alignment;
	ptrdiff_t low = 0, high = 0;

	if (!tek_ut__glibc.static_info)
		return;
	tek_ut__glibc.static_info(&bytes, &alignment);
	for (size_t i = 0; i < layout->module_count; i++) {
		const struct tek_tls_module *module = &layout->modules[i];
		if (!module->in_block)
			continue;
		if (module->at < low)
			low = module->at;
		if (module->at + (ptrdiff_t)module->bytes > high)
			high = module->at + (ptrdiff_t)module->bytes;
	}
#if defined(__aarch64__)
	if (high)
		clear(block, high, (ptrdiff_t)bytes);
#else
	if (low && bytes > tek_ut__glibc.bytes) /* the structure is behind the thread pointer */
		clear(block, -(ptrdiff_t)(bytes - tek_ut__glibc.bytes), low);
#endif
}

struct tek_tls_layout *tek_ut__tls_layout_make(void)
{
	void *model = tek_ut__glibc.allocate(NULL);
	/* Afterwards: the modules of the model are among them, unless one is being unloaded. */
	struct tek_tls_layout *layout = model ? list_modules() : NULL;

	if (!layout) {
		if (model)
			tek_ut__glibc.deallocate(model, true);
		return NULL;
	}
	layout->model = (uintptr_t)model;
	find_places(layout);
	if (!make_pieces(layout)) {
		tek_ut__tls_layout_drop(layout);
		return NULL;
	}
	tek_ut__tls_layout_clear_surplus(layout, layout->model);
	return layout;
}

void tek_ut__tls_layout_drop(struct tek_tls_layout *layout)
{
	if (!layout)
		return;
	tek_ut__glibc.deallocate((void *)layout->model, true);
	free(layout->pieces);
	free(layout);
}

/* The next one in the block, from number *at on; NULL: no more. */
static const struct tek_tls_module *next_in_block(const struct tek_tls_layout *layout, size_t *at)
{
	while (*at < layout->module_count) {
		const struct tek_tls_module *module = &layout->modules[(*at)++];
		if (module->in_block)
			return module;
	}
	return NULL;
}

static bool is_same(const struct tek_tls_module *one, const struct tek_tls_module *other)
{
	return one->number == other->number && one->at == other->at && one->bytes == other->bytes &&
	       one->image_bytes == other->image_bytes;
}

bool tek_ut__tls_layout_same(const struct tek_tls_layout *one, const struct tek_tls_layout *other)
{
	size_t i = 0, j = 0;

	for (;;) {
		const struct tek_tls_module *a = next_in_block(one, &i);
		const struct tek_tls_module *b = next_in_block(other, &j);
		if (!a || !b)
			return a == b;
		if (!is_same(a, b))
			return false;
	}
}

void tek_ut__tls_layout_reset(const struct tek_tls_layout *layout, uintptr_t block)
{
	const char *model = (const char *)layout->model;

	for (size_t i = 0; i < layout->piece_count; i++) {
		const struct tek_tls_piece *piece = &layout->pieces[i];
		if (piece->zero)
			memset((char *)block + piece->at, 0, piece->bytes);
		else
			memcpy((char *)block + piece->at, model + piece->at, piece->bytes);
	}
}

static bool has(const struct tek_tls_layout *layout, const struct tek_tls_module *module)
{
	for (size_t i = 0; i < layout->module_count; i++)
		if (layout->modules[i].in_block && is_same(&layout->modules[i], module))
			return true;
	return false;
}

/* Sets words that constructors have not set yet. */
static void set_zeros(char *to, const char *from, size_t bytes)
{
	unsigned int word, value;

	for (size_t at = 0; at + sizeof(word) <= bytes; at += sizeof(word)) {
		memcpy(&word, to + at, sizeof(word));
		memcpy(&value, from + at, sizeof(value));
		if (!word && value)
			memcpy(to + at, &value, sizeof(value));
	}
}

void tek_ut__tls_layout_add(const struct tek_tls_layout *layout,
			    const struct tek_tls_layout *before, uintptr_t block, bool used)
{
	const struct tek_tls_module *module;

	for (size_t i = 0; (module = next_in_block(layout, &i)) != NULL;) {
		char *to = (char *)block + module->at;
		const char *from = (char *)layout->model + module->at;
		if (has(before, module))
			continue;
		if (used)
			set_zeros(to, from, module->bytes);
		else
			memcpy(to, from, module->bytes);
	}
}
