/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "exec/target.h"

#include "exec/c_library.h"
#include "exec/image.h"
#include "tek_targets.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

enum {
	MAX_SCRIPTS = 5, /* as the kernel: a script's interpreter may be a script */
};

static const struct tek_verdict fits = {TEK_FITS, NULL};

/* A verdict for each reason: judged_STATIC. */
#define PASSED(target, name, why) \
	static const struct tek_verdict judged_##target = {TEK_PASSES, why};
#define DISTURBED(target, name, why) \
	static const struct tek_verdict judged_##target = {TEK_DISTURBS, why};
TEK_TARGETS_PASSED(PASSED)
TEK_TARGETS_DISTURBED(DISTURBED)

/* Our own ELF header, by the linker's leave. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

/*
 * This process's loader: its file name, such as ld-linux-x86-64.so.2, says which C library it has.
 */
static char own_loader[TEK_TARGET_PATH_BYTES];

/* The path that the loader found this library by. */
static char own_library[TEK_TARGET_PATH_BYTES];

/* The library for the other word size, and what it is made for; empty: there is none. */
static char sibling[TEK_TARGET_PATH_BYTES];
static ElfW(Half) sibling_machine;

/* Where both libraries are put: by `make install`, and by a system of many architectures. */
static const char *const directories[][2] = {
	{"/lib/", "/lib32/"},
	{"/lib/x86_64-linux-gnu/", "/lib/i386-linux-gnu/"},
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

bool tek__target_sibling_of(const char *library, char *path, size_t size)
{
	const char *name = base_name(library);
	size_t length = (size_t)(name - library);

	for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]) * 2; i++) {
		const char *from = directories[i / 2][i % 2], *to = directories[i / 2][1 - i % 2];
		size_t tail = strlen(from);
		if (length < tail || memcmp(name - tail, from, tail) != 0)
			continue;
		int written = snprintf(path, size, "%.*s%s%s", (int)(length - tail), library, to,
				       name);
		return written > 0 && (size_t)written < size;
	}
	return false;
}

/* Remembers what lies beside this library, if it is a library of the other word size. */
static void find_sibling(const char *library)
{
	ElfW(Ehdr) header; /* its beginning, with the machine, is the same for both sizes */

	if (library[0] != '/' || !tek__target_sibling_of(library, sibling, sizeof(sibling)))
		return;
	int fd = tek__image_open(AT_FDCWD, sibling);
	bool good = fd >= 0 &&
		    tek__image_read_at(fd, &header, sizeof(header), 0) == sizeof(header) &&
		    memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
		    header.e_ident[EI_CLASS] != __ehdr_start.e_ident[EI_CLASS] &&
		    header.e_ident[EI_DATA] == __ehdr_start.e_ident[EI_DATA];
	if (fd >= 0)
		tek__image_close(fd);
	if (good)
		sibling_machine = header.e_machine;
	else
		sibling[0] = '\0';
}

static bool is_this_library(const struct dl_phdr_info *info)
{
	const ElfW(Addr) ours = (ElfW(Addr)) & __ehdr_start;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		if (segment->p_type == PT_LOAD &&
		    ours - (info->dlpi_addr + segment->p_vaddr) < segment->p_memsz)
			return true;
	}
	return false;
}

static int count_object(struct dl_phdr_info *info, size_t size, void *counted)
{
	unsigned int *objects = counted;

	(void)size;
	/* The program itself is the first. */
	for (int i = 0; i < info->dlpi_phnum && *objects == 0; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		if (segment->p_type == PT_INTERP)
			strncpy(own_loader, (const char *)(info->dlpi_addr + segment->p_vaddr),
				sizeof(own_loader) - 1);
	}
	(*objects)++;
	if (!is_this_library(info))
		return 0;
	if (strlen(info->dlpi_name) < sizeof(own_library))
		strcpy(own_library, info->dlpi_name);
	find_sibling(info->dlpi_name);
	return 1;
}

void tek__target_start(void)
{
	unsigned int objects = 0;

	dl_iterate_phdr(count_object, &objects);
}

const char *tek__target_sibling(void)
{
	return sibling[0] ? sibling : NULL;
}

/* Programs that ours cannot be in, with room for all lists. */
#define ONE(id, name, why) +1
enum {
	MAX_DISTURBED = 0 TEK_TARGETS_FIRST_LIBRARIES(ONE) TEK_TARGETS_SANITIZERS(ONE)
		TEK_TARGETS_UTHREAD_LIBRARIES(ONE) TEK_TARGETS_UTHREAD_NOTES(ONE)
			TEK_TARGETS_UTHREAD_FILES(ONE)
};
static struct {
	enum { BY_LIBRARY, BY_NOTE, BY_FILE_BESIDE } how;
	const char *name, *why; /* of a library the beginning of its name */
} disturbed[MAX_DISTURBED] = {
#define LIBRARY(library, name, why) {BY_LIBRARY, name, why},
	TEK_TARGETS_FIRST_LIBRARIES(LIBRARY)
#undef LIBRARY
};

static void disturbs(int how, const char *name, const char *why)
{
	size_t i = 0;

	while (disturbed[i].name &&
	       (strcmp(disturbed[i].name, name) != 0 || (int)disturbed[i].how != how))
		if (++i == MAX_DISTURBED)
			return;
	disturbed[i].how = how;
	disturbed[i].why = why;
	disturbed[i].name = name;
}

#define LIBRARY(library, name, why) disturbs(BY_LIBRARY, name, why);
#define NOTE(note, name, why) disturbs(BY_NOTE, name, why);
#define FILE_BESIDE(file, name, why) disturbs(BY_FILE_BESIDE, name, why);

void tek__target_add_sanitizers(void)
{
	TEK_TARGETS_SANITIZERS(LIBRARY)
}

void tek__target_add_uthreads(void)
{
	tek__target_add_sanitizers();
	TEK_TARGETS_UTHREAD_LIBRARIES(LIBRARY)
	TEK_TARGETS_UTHREAD_NOTES(NOTE)
	TEK_TARGETS_UTHREAD_FILES(FILE_BESIDE)
}

/* The index of the library with this name among the first `end` in the list; `end`: none. */
static size_t find_library(const char *name, size_t end)
{
	for (size_t i = 0; i < end; i++)
		if (disturbed[i].how == BY_LIBRARY &&
		    strncmp(name, disturbed[i].name, strlen(disturbed[i].name)) == 0)
			return i;
	return end;
}

/* The index of the first library in the list that the program needs; `end`: none. */
static size_t find_needed(const struct tek_image *image, size_t end)
{
	Elf64_Dyn entry;
	char name[32];

	for (unsigned int i = 0; tek__image_dynamic(image, i, &entry); i++)
		if (entry.d_tag == DT_NEEDED &&
		    tek__image_text(image, entry.d_un.d_val, name, sizeof(name)))
			end = find_library(name, end);
	return end;
}

static bool lies_beside(const struct tek_image *image, const char *file)
{
	char path[TEK_TARGET_PATH_BYTES];

	if (!tek__image_path(image, path, sizeof(path)))
		return false;
	char *name = strrchr(path, '/') + 1;
	if ((size_t)(name - path) + strlen(file) >= sizeof(path))
		return false;
	strcpy(name, file);
	return access(path, F_OK) == 0;
}

/* Why ours cannot be in the program; NULL: it can. */
static const char *why_disturbed(const struct tek_image *image)
{
	size_t count = 0;

	while (count < MAX_DISTURBED && disturbed[count].name)
		count++;
	const size_t needed = find_needed(image, count);
	for (size_t i = 0; i < count; i++) {
		const char *name = disturbed[i].name;
		if (disturbed[i].how == BY_LIBRARY       ? i == needed
		    : disturbed[i].how == BY_FILE_BESIDE ? lies_beside(image, name)
							 : tek__image_has_note(image, name))
			return disturbed[i].why;
	}
	return NULL;
}

/* The C library of a program is known by its loader. */
static bool has_our_libc(const char *loader, bool crosses)
{
	/* The GNU C library's loader has another name for each word size. */
	if (crosses)
		return strncmp(loader, "ld-linux", strlen("ld-linux")) == 0;
	return !own_loader[0] || strcmp(loader, base_name(own_loader)) == 0;
}

/*
 * Whether the C library that comes with a loader has all that this library, or its sibling, needs
 * of it. The loader of this process has, so only another one is examined. An unreadable file is
 * left to the kernel, or the loader.
 */
static bool has_recent_libc(const struct tek_image *image, const char *loader, bool crosses)
{
	struct stat ours, theirs;

	if (!own_loader[0] || strcmp(loader, own_loader) == 0 || stat(loader, &theirs))
		return true;
	if (stat(own_loader, &ours) == 0 && ours.st_dev == theirs.st_dev &&
	    ours.st_ino == theirs.st_ino)
		return true;
	return tek__c_library_serves(image, loader, crosses ? sibling : own_library);
}

/* A loader that is started as a program takes libraries of LD_PRELOAD in. */
static bool is_loader(const struct tek_image *image, char *path, size_t size)
{
	Elf64_Dyn entry;
	char name[8] = "";

	for (unsigned int i = 0; tek__image_dynamic(image, i, &entry); i++)
		if (entry.d_tag == DT_SONAME &&
		    tek__image_text(image, entry.d_un.d_val, name, sizeof(name)) &&
		    strncmp(name, "ld-", 3) == 0)
			return tek__image_path(image, path, size);
	return false;
}

static struct tek_verdict examine_elf(struct tek_image *image)
{
	const unsigned char *ident = image->header.ident;
	const bool crosses = ident[EI_CLASS] != __ehdr_start.e_ident[EI_CLASS];
	/* Both kinds of header have it in the same place. */
	const ElfW(Half) machine = image->header.narrow.e_machine;
	char loader[256];

	if (crosses && !sibling[0])
		return judged_WORD_SIZE;
	if (ident[EI_DATA] != __ehdr_start.e_ident[EI_DATA] ||
	    machine != (crosses ? sibling_machine : __ehdr_start.e_machine))
		return judged_PROCESSOR;

	if (image->is_strange)
		return fits; /* the kernel will say what it thinks of it */

	const bool interpreted = tek__image_interpreter(image, loader, sizeof(loader));
	if (!interpreted && !is_loader(image, loader, sizeof(loader)))
		return judged_STATIC;
	if (interpreted && !has_our_libc(base_name(loader), crosses))
		return judged_LIBC;
	if (!has_recent_libc(image, loader, crosses))
		return judged_OLDER_LIBC;
	const char *why = why_disturbed(image);
	if (why)
		return (struct tek_verdict){TEK_DISTURBS, why};
	return crosses ? (struct tek_verdict){TEK_CROSSES, NULL} : fits;
}

/* A privileged program: the loader ignores LD_PRELOAD for it. */
static struct tek_verdict examine_privilege(int fd)
{
	struct statvfs system;
	struct stat status;

	/* Where the kernel grants nothing the program is an ordinary one. */
	if (syscall(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
	    (fstatvfs(fd, &system) == 0 && system.f_flag & ST_NOSUID))
		return fits;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
		if (status.st_mode & S_ISUID && status.st_uid != getuid())
			return judged_SET_USER_ID;
		if ((status.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
		    status.st_gid != getgid())
			return judged_SET_GROUP_ID;
	}
	/* Root has all capabilities already; only other users gain by those of the file. */
	if (geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0)
		return judged_CAPABILITIES;
	return fits;
}

/* The interpreter of a script, into `path`; false if the file is not one. */
static bool find_interpreter(const char *start, char *path, size_t size)
{
	if (start[0] != '#' || start[1] != '!')
		return false;
	start += 2;
	start += strspn(start, " \t");
	size_t length = strcspn(start, " \t\n");
	if (length == 0 || length >= size)
		return false;
	memmove(path, start, length); /* both may be the same buffer */
	path[length] = '\0';
	return true;
}

/* The program that the kernel will run for a script, opened; -1 if `fd` is no script. */
static int open_interpreter(int fd)
{
	char start[256] = "";
	ssize_t length = tek__image_read_at(fd, start, sizeof(start) - 1, 0);

	return length > 0 && find_interpreter(start, start, sizeof(start))
		       ? tek__image_open(AT_FDCWD, start)
		       : -1;
}

/*
 * Whether the loader can open the library.  It cannot in another root (chroot(2), a container) or
 * as another user, and would complain of it in each program.  access(2) asks for the real user,
 * without the capabilities that exec takes away.
 */
static bool is_in_reach(const char *library)
{
	return library[0] != '/' || access(library, R_OK) == 0;
}

static struct tek_verdict examine_binary(int fd)
{
	struct tek_image image;
	struct tek_verdict verdict = fits;

	/* The kernel ignores the privilege of a file that it cannot execute itself. */
	if (tek__image_read(&image, fd)) {
		verdict = examine_privilege(fd);
		if (verdict.fit == TEK_FITS)
			verdict = examine_elf(&image);
	}
	if (verdict.fit != TEK_DISTURBS &&
	    !is_in_reach(verdict.fit == TEK_CROSSES ? sibling : own_library))
		return judged_OUT_OF_REACH;
	return verdict;
}

struct tek_verdict tek__target_examine_fd(int fd)
{
	int program = fd, interpreter;

	/* A missing or endless interpreter is left to the kernel, which will refuse it. */
	for (int scripts = 0; scripts < MAX_SCRIPTS; scripts++) {
		interpreter = open_interpreter(program);
		if (interpreter < 0)
			break;
		if (program != fd)
			tek__image_close(program);
		program = interpreter;
	}
	struct tek_verdict verdict = examine_binary(program);
	if (program != fd)
		tek__image_close(program);
	return verdict;
}

struct tek_verdict tek__target_examine(int directory, const char *path)
{
	int fd = tek__image_open(directory, path);
	if (fd < 0)
		return fits;
	struct tek_verdict verdict = tek__target_examine_fd(fd);
	tek__image_close(fd);
	return verdict;
}

static bool is_program(const char *path)
{
	struct stat status;
	return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

const char *tek__target_search(const char *file, char *path, size_t size)
{
	const char *search = getenv("PATH");

	if (strchr(file, '/'))
		return file;
	if (!search)
		search = "/bin:/usr/bin"; /* as execvp(3) */
	for (;;) {
		size_t length = strcspn(search, ":");
		int written = snprintf(path, size, "%.*s%s%s", (int)length, search,
				       length ? "/" : "", file);
		if (written > 0 && (size_t)written < size && is_program(path))
			return path;
		if (!search[length])
			return file;
		search += length + 1;
	}
}
