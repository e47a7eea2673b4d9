/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ident/module.h"

#include "ident/process.h"
#include "ident/table.h"

#include <errno.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

/* Where they lie: what tek_table_header.modules counts, at hand without the table. */
static struct {
	uintptr_t start, end;
	bool libstdcxx;
} ranges[TEK_MAX_MODULES];
static unsigned int count;

static unsigned int known(void)
{
	return __atomic_load_n(&count, __ATOMIC_ACQUIRE);
}

/* The place of the latest that has the address; -1: none. */
static int find(uintptr_t address)
{
	int i = (int)known() - 1;
	while (i >= 0 && (address < ranges[i].start || address >= ranges[i].end))
		i--;
	return i;
}

bool tek__module_has(uintptr_t address, size_t bytes)
{
	int i = find(address);
	return i >= 0 && bytes <= ranges[i].end - address;
}

bool tek__module_is_libstdcxx(uintptr_t address)
{
	int i = find(address);
	return i >= 0 && ranges[i].libstdcxx;
}

struct search {
	uintptr_t address;
	struct tek_module *module;
};

/* The build id, out of a note segment: elf(5). */
static void read_build_id(struct tek_module *module, const char *note, size_t size)
{
	ElfW(Nhdr) header;

	while (size >= sizeof(header)) {
		memcpy(&header, note, sizeof(header));
		size_t name = (header.n_namesz + 3u) & ~(size_t)3;
		size_t text = (header.n_descsz + 3u) & ~(size_t)3;
		if (name > size - sizeof(header) || text > size - sizeof(header) - name)
			return;
		const char *id = note + sizeof(header) + name;
		if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 &&
		    memcmp(note + sizeof(header), "GNU", 4) == 0) {
			size_t bytes = header.n_descsz;
			if (bytes > sizeof(module->build_id))
				bytes = sizeof(module->build_id);
			memcpy(module->build_id, id, bytes);
			module->build_id_bytes = (tek_u32)bytes;
			return;
		}
		note = id + text;
		size -= sizeof(header) + name + text;
	}
}

static void set_path(struct tek_module *module, const char *name)
{
	ssize_t length = 0;

	/* The program itself has no name here. */
	if (name[0])
		strncpy((char *)module->path, name, sizeof(module->path) - 1);
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
			read_build_id(search->module,
				      (const char *)(info->dlpi_addr + segment->p_vaddr),
				      segment->p_memsz);
	}
	return 1;
}

/* Under the lock. Another thread may have been faster. */
static void add(const struct tek_module *module)
{
	if (count == TEK_MAX_MODULES || tek__module_has(module->start, 1) ||
	    !tek__table_add_module(count, module))
		return;
	ranges[count].start = module->start;
	ranges[count].end = module->end;
	ranges[count].libstdcxx = strstr((const char *)module->path, "/libstdc++.so") != NULL;
	__atomic_store_n(&count, count + 1, __ATOMIC_RELEASE);
}

void tek__module_note(uintptr_t address)
{
	struct tek_module module;
	struct search search = {.address = address, .module = &module};
	int saved = errno;

	if (tek__module_has(address, 1) || known() == TEK_MAX_MODULES)
		return;
	if (dl_iterate_phdr(examine, &search) == 1 && tek__lock()) {
		add(&module);
		tek__unlock();
	}
	errno = saved;
}

void tek__modules_forget(void)
{
	count = 0;
}
