/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "exec/image.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MAX_DYNAMIC = 512 };

/* The C library's open(), pread() and close() are cancellation points: system calls are none. */

int tek__image_open(int directory, const char *path)
{
	struct stat status;

	if (fstatat(directory, path, &status, 0) || !S_ISREG(status.st_mode))
		return -1;
	return (int)syscall(SYS_openat, directory, path,
			    O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_LARGEFILE);
}

void tek__image_close(int fd)
{
	syscall(SYS_close, fd);
}

ssize_t tek__image_read_at(int fd, void *to, size_t bytes, uint64_t offset)
{
	struct iovec part = {.iov_base = to, .iov_len = bytes};
	/* The kernel adds both halves; where a long has 64 bits it drops the higher one. */
	const unsigned long low = (unsigned long)offset, high = (unsigned long)(offset >> 32);

	return syscall(SYS_preadv, fd, &part, 1ul, low, high);
}

bool tek__image_bytes(const struct tek_image *image, void *to, size_t bytes, uint64_t offset)
{
	return tek__image_read_at(image->fd, to, bytes, offset) == (ssize_t)bytes;
}

static void read_segments(struct tek_image *image)
{
	const bool wide = image->is_wide;
	const size_t entry = wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
	const uint64_t at = wide ? image->header.wide.e_phoff : image->header.narrow.e_phoff;
	const unsigned int count = wide ? image->header.wide.e_phnum : image->header.narrow.e_phnum;
	union {
		Elf32_Phdr narrow;
		Elf64_Phdr wide;
	} read;

	if (count > sizeof(image->segments) / sizeof(image->segments[0]) ||
	    entry != (wide ? image->header.wide.e_phentsize : image->header.narrow.e_phentsize))
		return;
	for (unsigned int i = 0; i < count; i++) {
		if (!tek__image_bytes(image, &read, entry, at + i * entry))
			return;
		image->segments[i] =
			wide ? (struct tek_image_segment){read.wide.p_type, read.wide.p_vaddr,
							  read.wide.p_offset, read.wide.p_filesz}
			     : (struct tek_image_segment){read.narrow.p_type, read.narrow.p_vaddr,
							  read.narrow.p_offset,
							  read.narrow.p_filesz};
	}
	image->count = count;
	image->is_strange = false;
}

bool tek__image_read(struct tek_image *image, int fd)
{
	image->fd = fd;
	image->count = 0;
	image->strings = UINT64_MAX;
	image->is_strange = true;
	/* A file of 32 bits may be shorter than the longer header. */
	if (tek__image_read_at(fd, &image->header, sizeof(image->header), 0) <
		    (ssize_t)sizeof(Elf32_Ehdr) ||
	    memcmp(image->header.ident, ELFMAG, SELFMAG) != 0)
		return false;
	image->is_wide = image->header.ident[EI_CLASS] == ELFCLASS64;
	read_segments(image);
	uint64_t address;
	if (tek__image_dynamic_value(image, DT_STRTAB, &address))
		image->strings = tek__image_offset(image, address);
	return true;
}

static const struct tek_image_segment *find_segment(const struct tek_image *image, uint32_t type)
{
	for (unsigned int i = 0; i < image->count; i++)
		if (image->segments[i].type == type)
			return &image->segments[i];
	return NULL;
}

/* A string in the file, cut to fit; empty if it cannot be read. */
static void read_string(int fd, char *to, size_t size, uint64_t offset)
{
	ssize_t length = tek__image_read_at(fd, to, size - 1, offset);
	to[length > 0 ? length : 0] = '\0';
}

bool tek__image_interpreter(const struct tek_image *image, char *path, size_t size)
{
	const struct tek_image_segment *interpreter = find_segment(image, PT_INTERP);

	if (interpreter)
		read_string(image->fd, path, size, interpreter->offset);
	return interpreter != NULL;
}

uint64_t tek__image_offset(const struct tek_image *image, uint64_t address)
{
	for (unsigned int i = 0; i < image->count; i++) {
		const struct tek_image_segment *segment = &image->segments[i];
		if (segment->type == PT_LOAD && address >= segment->address &&
		    address - segment->address < segment->bytes)
			return address - segment->address + segment->offset;
	}
	return UINT64_MAX;
}

bool tek__image_dynamic(const struct tek_image *image, unsigned int index, Elf64_Dyn *entry)
{
	const struct tek_image_segment *dynamic = find_segment(image, PT_DYNAMIC);
	const size_t size = image->is_wide ? sizeof(Elf64_Dyn) : sizeof(Elf32_Dyn);
	union {
		Elf32_Dyn narrow;
		Elf64_Dyn wide;
	} read;

	if (!dynamic || index >= MAX_DYNAMIC || (index + 1) * size > dynamic->bytes ||
	    !tek__image_bytes(image, &read, size, dynamic->offset + index * size))
		return false;
	entry->d_tag = image->is_wide ? read.wide.d_tag : read.narrow.d_tag;
	entry->d_un.d_val = image->is_wide ? read.wide.d_un.d_val : read.narrow.d_un.d_val;
	return entry->d_tag != DT_NULL;
}

bool tek__image_dynamic_value(const struct tek_image *image, int64_t tag, uint64_t *value)
{
	Elf64_Dyn entry;

	for (unsigned int i = 0; tek__image_dynamic(image, i, &entry); i++) {
		if (entry.d_tag == tag) {
			*value = entry.d_un.d_val;
			return true;
		}
	}
	return false;
}

bool tek__image_text(const struct tek_image *image, uint64_t at, char *to, size_t size)
{
	if (image->strings == UINT64_MAX)
		return false;
	read_string(image->fd, to, size, image->strings + at);
	return true;
}

bool tek__image_has_note(const struct tek_image *image, const char *owner)
{
	enum { MAX_NOTES = 32 };
	const size_t length = strlen(owner) + 1;
	Elf64_Nhdr note; /* the same in both word sizes */
	char name[16];

	for (unsigned int i = 0; i < image->count; i++) {
		const struct tek_image_segment *segment = &image->segments[i];
		uint64_t at = 0;
		for (int notes = 0; segment->type == PT_NOTE && notes < MAX_NOTES &&
				    at + sizeof(note) < segment->bytes;
		     notes++) {
			if (!tek__image_bytes(image, &note, sizeof(note), segment->offset + at))
				break;
			at += sizeof(note);
			/* Some count the bytes that fill it up to a multiple of 4. */
			if (note.n_namesz >= length && note.n_namesz <= (length + 3) / 4 * 4 &&
			    length <= sizeof(name) &&
			    tek__image_bytes(image, name, length, segment->offset + at) &&
			    memcmp(name, owner, length) == 0)
				return true;
			at += ((uint64_t)note.n_namesz + 3) / 4 * 4 +
			      ((uint64_t)note.n_descsz + 3) / 4 * 4;
		}
	}
	return false;
}

bool tek__image_path(const struct tek_image *image, char *path, size_t size)
{
	char link[32];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", image->fd);
	const ssize_t length = readlink(link, path, size);
	if (length <= 0 || (size_t)length >= size)
		return false;
	path[length] = '\0';
	return path[0] == '/';
}
