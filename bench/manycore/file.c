/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "file.h"

#include "fingerprint.h"
#include "program.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FIRST_CAPACITY 65536

struct memory_file {
	char *data;
	size_t size, capacity, at;
};

static ssize_t memory_read(void *cookie, char *buffer, size_t size)
{
	struct memory_file *file = cookie;
	size_t left = file->at < file->size ? file->size - file->at : 0;

	if (size > left)
		size = left;
	if (size)
		memcpy(buffer, file->data + file->at, size);
	file->at += size;
	return (ssize_t)size;
}

static int make_room(struct memory_file *file, size_t size)
{
	size_t capacity = file->capacity ? file->capacity : FIRST_CAPACITY;
	char *data;

	while (capacity < size)
		capacity *= 2;
	if (capacity == file->capacity)
		return 0;
	data = realloc(file->data, capacity);
	if (!data)
		return ENOMEM;
	file->data = data;
	file->capacity = capacity;
	return 0;
}

/* No caller seeks beyond the end, so there are no holes. */
static ssize_t memory_write(void *cookie, const char *buffer, size_t size)
{
	struct memory_file *file = cookie;

	if (make_room(file, file->at + size) != 0)
		return 0; /* an error, says fopencookie(3) */
	memcpy(file->data + file->at, buffer, size);
	file->at += size;
	if (file->at > file->size)
		file->size = file->at;
	return (ssize_t)size;
}

static int memory_seek(void *cookie, off64_t *offset, int whence)
{
	struct memory_file *file = cookie;
	off64_t base = 0;

	if (whence == SEEK_CUR)
		base = (off64_t)file->at;
	else if (whence == SEEK_END)
		base = (off64_t)file->size;
	if (base + *offset < 0 || (uint64_t)(base + *offset) > file->size) {
		errno = EINVAL;
		return -1;
	}
	*offset += base;
	file->at = (size_t)*offset;
	return 0;
}

static int memory_close(void *cookie)
{
	struct memory_file *file = cookie;

	free(file->data);
	free(file);
	return 0;
}

static FILE *create_in_memory(void)
{
	const cookie_io_functions_t functions = {
		.read = memory_read,
		.write = memory_write,
		.seek = memory_seek,
		.close = memory_close,
	};

	return fopencookie(program_memory(calloc(1, sizeof(struct memory_file))), "w+", functions);
}

static FILE *create_on_tmpfs(void)
{
	int descriptor = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (descriptor < 0) /* the kernel's own tmpfs, which every process can have */
		descriptor = memfd_create("manycore", MFD_CLOEXEC);
	return descriptor < 0 ? NULL : fdopen(descriptor, "w+");
}

FILE *file_create(void)
{
	FILE *file = program.files_in_memory ? create_in_memory() : create_on_tmpfs();

	if (!file)
		err(EXIT_FAILURE, "cannot create a file");
	return file;
}

uint64_t file_fingerprint(FILE *file)
{
	uint64_t hash = FINGERPRINT_BEGIN;
	char buffer[4096];
	size_t size;

	rewind(file);
	while ((size = fread(buffer, 1, sizeof(buffer), file)) > 0)
		hash = fingerprint(hash, buffer, size);
	if (ferror(file))
		err(EXIT_FAILURE, "cannot read a file");
	return hash;
}

void file_close(FILE *file)
{
	if (ferror(file) || fclose(file) != 0)
		err(EXIT_FAILURE, "cannot write a file");
}
