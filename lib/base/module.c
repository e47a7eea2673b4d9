/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/module.h"

#include "base/build_id.h"
#include "base/owner.h"
#include "base/page.h"
#include "base/program.h"
#include "base/script.h"
#include "base/segment.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Written once each, before `count` tells of them; a forked child keeps them. */
static struct tek_module modules[TEK_MAX_MODULES];
static unsigned int count;
static unsigned int program; /* number, from 1, of the program itself; 0: not noted */

static unsigned int known(void)
{
	return __atomic_load_n(&count, __ATOMIC_ACQUIRE);
}

/* The place of the latest that has the address; -1: none. */
static int find(uintptr_t address)
{
	int i = (int)known() - 1;
	while (i >= 0 && (address < modules[i].start || address >= modules[i].end))
		i--;
	return i;
}

const struct tek_module *tek__module_of(uintptr_t address)
{
	int i = find(address);
	return i >= 0 ? &modules[i] : NULL;
}

bool tek__module_has(uintptr_t address, size_t bytes)
{
	int i = find(address);
	return i >= 0 && bytes <= modules[i].end - address;
}

const char *tek__module_name(uintptr_t address)
{
	int i = find(address);
	const char *path = i >= 0 ? (const char *)modules[i].path : "";
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

struct search {
	uintptr_t address;
	struct tek_module *module;
};

/*
 * Where the dynamic linker was started with the program as its argument, and so has no linker above
 * it, /proc/self/exe is the linker. A function of its own, for the size of its frame.
 */
__attribute__((cold, noinline)) static void set_path_of_argument(struct tek_module *module)
{
	char full[PATH_MAX];

	if (realpath(__progname_full, full) && strlen(full) < sizeof(module->path))
		strcpy((char *)module->path, full);
}

static void set_path(struct tek_module *module, const char *name)
{
	ssize_t length = 0;

	/* The program itself has no name here. */
	if (name[0])
		strncpy((char *)module->path, name, sizeof(module->path) - 1);
	else if (!getauxval(AT_BASE))
		set_path_of_argument(module);
	else
		length = readlink("/proc/self/exe", (char *)module->path, sizeof(module->path));
	if (length < 0 || length == sizeof(module->path) || strlen(name) >= sizeof(module->path))
		memset(module->path, 0, sizeof(module->path));
}

/* For dl_iterate_phdr(3): 1 if it is the file that is looked for. */
static int examine(struct dl_phdr_info *info, size_t size, void *value)
{
	struct search *search = value;
	uintptr_t start = UINTPTR_MAX, end = 0;
	bool found = false;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + segment->p_vaddr;
		uintptr_t to = from + segment->p_memsz;
		if (segment->p_type != PT_LOAD)
			continue;
		start = from < start ? from : start;
		end = to > end ? to : end;
		found = found || (search->address >= from && search->address < to);
	}
	if (!found)
		return 0;
	*search->module = (struct tek_module){.start = start, .end = end, .bias = info->dlpi_addr};
	set_path(search->module, info->dlpi_name);
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		if (segment->p_type == PT_NOTE && !search->module->build_id_bytes)
			tek__build_id_read(search->module,
					   (const char *)(info->dlpi_addr + segment->p_vaddr),
					   segment->p_memsz);
	}
	return 1;
}

#if __GLIBC_PREREQ(2, 35)
static bool get_segments(const struct dl_find_object *object, struct dl_phdr_info *info)
{
	ElfW(Ehdr) header;

	/* In a program with separate segments the object is one of them, without the header. */
	if (!info->dlpi_name[0] && getauxval(AT_BASE)) {
		info->dlpi_phdr = (const void *)getauxval(AT_PHDR);
		info->dlpi_phnum = (ElfW(Half))getauxval(AT_PHNUM);
		return true;
	}
	memcpy(&header, object->dlfo_map_start, sizeof(header));
	/* Tools that edit programs may put the program headers where no segment has them. */
	if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_phnum > tek__page_bytes / sizeof(ElfW(Phdr)) ||
	    header.e_phoff > tek__page_bytes - header.e_phnum * sizeof(ElfW(Phdr)))
		return false;
	info->dlpi_phdr = (const void *)((const char *)object->dlfo_map_start + header.e_phoff);
	info->dlpi_phnum = header.e_phnum;
	return true;
}

/*
 * _dl_find_object(3) takes no lock: one that another thread held while the process forked
 * would never come free in the child.
 */
static bool visit_file_of(uintptr_t address, int (*visit)(struct dl_phdr_info *, size_t, void *),
			  void *value)
{
	struct dl_find_object object;

	if (_dl_find_object((void *)address, &object))
		return false;
	struct dl_phdr_info info = {
		.dlpi_addr = object.dlfo_link_map->l_addr,
		.dlpi_name = object.dlfo_link_map->l_name,
	};
	return get_segments(&object, &info) && visit(&info, sizeof(info), value) == 1;
}
#else
static bool visit_file_of(uintptr_t address, int (*visit)(struct dl_phdr_info *, size_t, void *),
			  void *value)
{
	(void)address;
	return dl_iterate_phdr(visit, value) == 1;
}
#endif

static bool search_in(struct search *search)
{
	return visit_file_of(search->address, examine, search);
}

unsigned int tek__module_access(uintptr_t address, size_t bytes)
{
	struct tek_segment segment = {.address = address, .bytes = bytes};

	visit_file_of(address, tek__segment_find, &segment);
	return segment.flags;
}

const char *tek__module_path(uintptr_t address, uintptr_t *bias)
{
	const struct tek_module *module = tek__module_of(address);

#if __GLIBC_PREREQ(2, 35)
	struct dl_find_object object;
	if (!module && _dl_find_object((void *)address, &object) == 0) {
		*bias = object.dlfo_link_map->l_addr;
		return object.dlfo_link_map->l_name;
	}
#endif
	*bias = module ? (uintptr_t)module->bias : 0;
	return module ? (const char *)module->path : NULL;
}

/* Under the lock. Another thread may have been faster. */
static void add(const struct tek_module *module)
{
	if (count == TEK_MAX_MODULES || tek__module_has(module->start, 1))
		return;
	modules[count] = *module;
	__atomic_store_n(&count, count + 1, __ATOMIC_RELEASE);
	tek__owner->list_modules(modules, count, program);
}

void tek__module_note(uintptr_t address)
{
	struct tek_module module;
	struct search search = {.address = address, .module = &module};
	int saved = errno;

	if (tek__module_has(address, 1) || known() == TEK_MAX_MODULES)
		return;
	if (search_in(&search) && tek__owner->lock()) {
		add(&module);
		tek__owner->unlock();
	}
	errno = saved;
}

/* For dl_iterate_phdr(3): any address of the program, which comes first. */
static int find_program(struct dl_phdr_info *info, size_t size, void *value)
{
	uintptr_t *address = value;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum && !*address; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD)
			*address = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
	return 1;
}

/* FNV-1a, from another beginning for each word of the result. */
static void mix(uint32_t words[], size_t count, const void *bytes, size_t size)
{
	const unsigned char *at = bytes;

	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < size; j++)
			words[i] = (words[i] ^ at[j]) * 16777619u;
}

/*
 * The script that an interpreter runs is the program then: a file without addresses, with a build
 * id made of the interpreter's and of the script's path. Returns the module number of the program.
 */
static unsigned int add_script(unsigned int interpreter)
{
	const struct tek_module *known = &modules[interpreter - 1];
	struct tek_module script = {.start = 0};
	uint32_t id[sizeof(script.build_id) / sizeof(uint32_t)];

	if (count == TEK_MAX_MODULES ||
	    !tek__script_of_process((const char *)known->path, (char *)script.path,
				    sizeof(script.path)))
		return interpreter;
	for (size_t i = 0; i < sizeof(id) / sizeof(id[0]); i++)
		id[i] = 2166136261u + (uint32_t)i;
	const size_t words = sizeof(id) / sizeof(id[0]);
	mix(id, words, known->build_id, known->build_id_bytes);
	mix(id, words, known->path, known->build_id_bytes ? 0 : strlen((const char *)known->path));
	mix(id, words, script.path, strlen((const char *)script.path));
	memcpy(script.build_id, id, sizeof(id));
	script.build_id_bytes = sizeof(id);
	add(&script);
	return count;
}

void tek__module_note_program(void)
{
	struct tek_module module;
	struct search search = {.module = &module};
	int saved = errno;

	dl_iterate_phdr(find_program, &search.address);
	if (search.address && !tek__module_has(search.address, 1) && search_in(&search))
		add(&module);
	program = (unsigned int)(find(search.address) + 1);
	if (program)
		program = add_script(program);
	errno = saved;
}

const struct tek_module *tek__module_program(void)
{
	return program ? &modules[program - 1] : NULL;
}

void tek__modules_list(void)
{
	tek__owner->list_modules(modules, count, program);
}

const struct tek_files tek__files = {
	.note = tek__module_note,
	.has = tek__module_has,
	.name = tek__module_name,
	.access = tek__module_access,
	.of = tek__module_of,
};
