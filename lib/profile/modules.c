/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/modules.h"

#include "base/build_id.h"
#include "base/segment.h"
#include "profile/file.h"
#include "profile/process.h"

#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert(TEK_PROFILE_MODULES_OFFSET + TEK_PROFILE_MAX_MODULES * sizeof(struct tek_module) <=
		       TEK_PROFILE_THREADS_OFFSET,
	       "there is room for the modules");

static struct tek_module *modules(const struct tek_profile_header *file)
{
	return (struct tek_module *)((char *)file + TEK_PROFILE_MODULES_OFFSET);
}

/* For so many in all. */
static bool has_room(struct tek_profile_header *file, tek_u32 count)
{
	const size_t had = file->modules * sizeof(struct tek_module);

	return tek_prof__file_populate(file, TEK_PROFILE_MODULES_OFFSET + had,
				       count * sizeof(struct tek_module) - had);
}

static void set_path(struct tek_module *module, const char *name)
{
	size_t room = sizeof(module->path) - 1;

	if (name[0]) {
		/* A shortened path would name another file. */
		if (strlen(name) <= room)
			strcpy((char *)module->path, name);
		return;
	}
	/* The program itself has no name here. */
	if (syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", module->path, room) == (long)room)
		memset(module->path, 0, sizeof(module->path));
}

/* For dl_iterate_phdr(3). */
static int note(struct dl_phdr_info *info, size_t size, void *unused)
{
	struct tek_profile_header *file = tek_prof__file;
	uintptr_t start = UINTPTR_MAX, end = 0;

	(void)size;
	(void)unused;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + segment->p_vaddr;
		if (segment->p_type != PT_LOAD)
			continue;
		start = from < start ? from : start;
		end = from + segment->p_memsz > end ? from + segment->p_memsz : end;
	}
	for (tek_u32 i = 0; i < file->modules; i++)
		if (modules(file)[i].start == start && modules(file)[i].bias == info->dlpi_addr)
			return 0;
	if (file->modules == TEK_PROFILE_MAX_MODULES || !has_room(file, file->modules + 1))
		return 1;
	struct tek_module *module = &modules(file)[file->modules];
	*module = (struct tek_module){.start = start, .end = end, .bias = info->dlpi_addr};
	set_path(module, info->dlpi_name);
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		if (segment->p_type == PT_NOTE && !module->build_id_bytes)
			tek__build_id_read(module,
					   (const char *)(info->dlpi_addr + segment->p_vaddr),
					   segment->p_memsz);
	}
	__atomic_store_n(&file->modules, file->modules + 1, __ATOMIC_RELEASE);
	return 0;
}

/* The latest that has the address: of two the first was unloaded. */
static const struct tek_module *module_of(uintptr_t address)
{
	struct tek_profile_header *file = tek_prof__file;
	tek_u32 count = file ? __atomic_load_n(&file->modules, __ATOMIC_ACQUIRE) : 0;

	while (count-- > 0)
		if (address >= modules(file)[count].start && address < modules(file)[count].end)
			return &modules(file)[count];
	return NULL;
}

/* As in base/module.h, here of the modules in the file. */
static void note_file(uintptr_t address)
{
	if (address && !module_of(address))
		tek_prof__modules_note();
}

static bool has(uintptr_t address, size_t bytes)
{
	const struct tek_module *module = module_of(address);

	return module && bytes <= module->end - address;
}

static const char *name_of(uintptr_t address)
{
	const struct tek_module *module = module_of(address);
	const char *path = module ? (const char *)module->path : "";
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static unsigned int access_of(uintptr_t address, size_t bytes)
{
	struct tek_segment segment = {.address = address, .bytes = bytes};

	dl_iterate_phdr(tek__segment_find, &segment);
	return segment.flags;
}

const struct tek_files tek_prof__files = {
	.note = note_file,
	.has = has,
	.name = name_of,
	.access = access_of,
	.of = module_of,
};

void tek_prof__modules_note(void)
{
	tek_prof__process_forked();
	if (tek_prof__file)
		dl_iterate_phdr(note, NULL);
}

void tek_prof__modules_copy(struct tek_profile_header *to, const struct tek_profile_header *from)
{
	tek_u32 count = __atomic_load_n(&from->modules, __ATOMIC_ACQUIRE);

	if (!has_room(to, count))
		return;
	memcpy(modules(to), modules(from), count * sizeof(struct tek_module));
	__atomic_store_n(&to->modules, count, __ATOMIC_RELEASE);
}
