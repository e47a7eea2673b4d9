/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "exec/target.h"

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
	MAX_SCRIPTS = 5,   /* as the kernel: a script's interpreter may be a script */
	MAX_SEGMENTS = 24, /* programs have some 13; room on small stacks counts */
	MAX_DYNAMIC = 512,
};

static const struct tek_verdict fits = {TEK_FITS, NULL};

/* Our own ELF header, by the linker's leave. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

/* File name of this process's loader, such as ld-linux-x86-64.so.2: which C library it has. */
static char own_loader[64];

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static int find_own_loader(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		if (segment->p_type == PT_INTERP)
			strncpy(own_loader,
				base_name((const char *)(info->dlpi_addr + segment->p_vaddr)),
				sizeof(own_loader) - 1);
	}
	return 1; /* the program itself is the first; the libraries do not matter */
}

void tek__target_start(void)
{
	dl_iterate_phdr(find_own_loader, NULL);
}

struct image {
	int fd;
	ElfW(Ehdr) header;
	ElfW(Phdr) segments[MAX_SEGMENTS];
	unsigned int count;
};

static bool read_at(int fd, void *to, size_t bytes, uint64_t offset)
{
	return pread(fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* A string in the file, cut to fit; empty if it cannot be read. */
static void read_string(int fd, char *to, size_t size, uint64_t offset)
{
	ssize_t length = pread(fd, to, size - 1, (off_t)offset);
	to[length > 0 ? length : 0] = '\0';
}

static const ElfW(Phdr) * find_segment(const struct image *image, unsigned int type)
{
	for (unsigned int i = 0; i < image->count; i++)
		if (image->segments[i].p_type == type)
			return &image->segments[i];
	return NULL;
}

static uint64_t file_offset(const struct image *image, uint64_t address)
{
	for (unsigned int i = 0; i < image->count; i++) {
		const ElfW(Phdr) *segment = &image->segments[i];
		if (segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
		    address - segment->p_vaddr < segment->p_filesz)
			return address - segment->p_vaddr + segment->p_offset;
	}
	return UINT64_MAX;
}

static bool get_dynamic(const struct image *image, unsigned int index, ElfW(Dyn) * entry)
{
	const ElfW(Phdr) *dynamic = find_segment(image, PT_DYNAMIC);
	return dynamic && index < MAX_DYNAMIC &&
	       (index + 1) * sizeof(*entry) <= dynamic->p_filesz &&
	       read_at(image->fd, entry, sizeof(*entry),
		       dynamic->p_offset + index * sizeof(*entry)) &&
	       entry->d_tag != DT_NULL;
}

/* AddressSanitizer aborts a program in which it is not the first library. */
static bool needs_asan(const struct image *image)
{
	uint64_t strings = UINT64_MAX;
	ElfW(Dyn) entry;
	char name[32];

	for (unsigned int i = 0; get_dynamic(image, i, &entry); i++)
		if (entry.d_tag == DT_STRTAB)
			strings = file_offset(image, entry.d_un.d_ptr);
	for (unsigned int i = 0; strings != UINT64_MAX && get_dynamic(image, i, &entry); i++) {
		if (entry.d_tag != DT_NEEDED)
			continue;
		read_string(image->fd, name, sizeof(name), strings + entry.d_un.d_val);
		/* gcc's name, clang's name */
		if (strncmp(name, "libasan.so", strlen("libasan.so")) == 0 ||
		    strncmp(name, "libclang_rt.asan", strlen("libclang_rt.asan")) == 0)
			return true;
	}
	return false;
}

static struct tek_verdict examine_elf(struct image *image)
{
	const unsigned char *ident = image->header.e_ident;
	char loader[256];

	if (ident[EI_CLASS] != __ehdr_start.e_ident[EI_CLASS])
		return (struct tek_verdict){TEK_DISTURBS, "is of another word size"};
	if (ident[EI_DATA] != __ehdr_start.e_ident[EI_DATA] ||
	    image->header.e_machine != __ehdr_start.e_machine)
		return (struct tek_verdict){TEK_DISTURBS, "is for another processor"};

	image->count = image->header.e_phnum;
	if (image->count > MAX_SEGMENTS || image->header.e_phentsize != sizeof(ElfW(Phdr)) ||
	    !read_at(image->fd, image->segments, image->count * sizeof(ElfW(Phdr)),
		     image->header.e_phoff))
		return fits; /* the kernel will say what it thinks of it */

	const ElfW(Phdr) *interpreter = find_segment(image, PT_INTERP);
	if (!interpreter)
		return (struct tek_verdict){TEK_PASSES, "is statically linked"};
	read_string(image->fd, loader, sizeof(loader), interpreter->p_offset);
	if (own_loader[0] && strcmp(base_name(loader), own_loader) != 0)
		return (struct tek_verdict){TEK_DISTURBS, "is for another C library"};
	if (needs_asan(image))
		return (struct tek_verdict){TEK_DISTURBS, "is built with AddressSanitizer"};
	return fits;
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
			return (struct tek_verdict){TEK_PASSES, "is set-user-id"};
		if ((status.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
		    status.st_gid != getgid())
			return (struct tek_verdict){TEK_PASSES, "is set-group-id"};
	}
	/* Root has all capabilities already; only others gain by those of the file. */
	if (geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0)
		return (struct tek_verdict){TEK_PASSES, "has file capabilities"};
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

/* Opens nothing but ordinary files: to open a FIFO can wait for ever, a device can act on it. */
static int open_program(int directory, const char *path)
{
	struct stat status;
	if (fstatat(directory, path, &status, 0) || !S_ISREG(status.st_mode))
		return -1;
	return openat(directory, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* The program that the kernel will run for a script, opened; -1 if `fd` is no script. */
static int open_interpreter(int fd)
{
	char start[256] = "";
	ssize_t length = pread(fd, start, sizeof(start) - 1, 0);

	return length > 0 && find_interpreter(start, start, sizeof(start))
		       ? open_program(AT_FDCWD, start)
		       : -1;
}

static struct tek_verdict examine_binary(int fd)
{
	struct image image = {.fd = fd};
	struct tek_verdict verdict = examine_privilege(fd);

	if (verdict.fit == TEK_FITS && read_at(fd, &image.header, sizeof(image.header), 0) &&
	    memcmp(image.header.e_ident, ELFMAG, SELFMAG) == 0)
		verdict = examine_elf(&image);
	return verdict;
}

struct tek_verdict tek__target_examine_fd(int fd)
{
	int program = fd, interpreter;

	/* What the kernel will refuse, a missing or endless interpreter, is its affair. */
	for (int scripts = 0; scripts < MAX_SCRIPTS; scripts++) {
		interpreter = open_interpreter(program);
		if (interpreter < 0)
			break;
		if (program != fd)
			close(program);
		program = interpreter;
	}
	struct tek_verdict verdict = examine_binary(program);
	if (program != fd)
		close(program);
	return verdict;
}

struct tek_verdict tek__target_examine(int directory, const char *path)
{
	int fd = open_program(directory, path);
	if (fd < 0)
		return fits;
	struct tek_verdict verdict = tek__target_examine_fd(fd);
	close(fd);
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
