/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An ELF file, read in small pieces: program headers and dynamic section of either word
 * size.
 *
 * For target.c and c_library.c.  Async-signal-safe, and small on the stack: these run in the
 * children of fork() and vfork() too.  No function is a cancellation point: posix_spawn() is
 * none.  The caller owns the descriptor.
 */
#ifndef TEK_EXEC_IMAGE_H
#define TEK_EXEC_IMAGE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The fields of a segment that are needed, of either word size. */
struct tek_image_segment {
	uint32_t type;
	uint64_t address, offset, bytes;
};

struct tek_image {
	int fd;
	bool is_wide; /* of 64 bits */
	union {
		unsigned char ident[EI_NIDENT];
		Elf32_Ehdr narrow;
		Elf64_Ehdr wide;
	} header;
	struct tek_image_segment segments[24]; /* programs have some 13 */
	unsigned int count;
	uint64_t strings; /* where those of the dynamic section begin; UINT64_MAX: nowhere */
	bool is_strange;  /* segments cannot be read, or are more than any program has */
};

/*
 * Opens a regular file only: to open a FIFO can wait for ever, a device can act on it.  -1: it is
 * none.
 */
int tek__image_open(int directory, const char *path);
void tek__image_close(int fd);

/* As pread(2). */
ssize_t tek__image_read_at(int fd, void *to, size_t bytes, uint64_t offset);

/* False: it is no ELF file. */
bool tek__image_read(struct tek_image *image, int fd);

/* False: beyond the bytes of the file. */
bool tek__image_bytes(const struct tek_image *image, void *to, size_t bytes, uint64_t offset);

/* The path of its loader; false: it has none.  Longer ones are cut. */
bool tek__image_interpreter(const struct tek_image *image, char *path, size_t size);

/* An entry of the dynamic section; false: it has no such entry. */
bool tek__image_dynamic(const struct tek_image *image, unsigned int index, Elf64_Dyn *entry);

/* The value of the first entry with this tag; false: there is none. */
bool tek__image_dynamic_value(const struct tek_image *image, int64_t tag, uint64_t *value);

/* Where the file has what will be at this address; UINT64_MAX: nowhere. */
uint64_t tek__image_offset(const struct tek_image *image, uint64_t address);

/* A string of the dynamic section, cut to fit; false: it has none. */
bool tek__image_text(const struct tek_image *image, uint64_t at, char *to, size_t size);

/* Whether one of the notes has this owner. */
bool tek__image_has_note(const struct tek_image *image, const char *owner);

/*
 * The path by which the kernel knows the file, as /proc says it; false: unknown, or longer than
 * that.
 */
bool tek__image_path(const struct tek_image *image, char *path, size_t size);

#endif
