/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "file_ops.h"

#include <err.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096

/* Where the bytes of this time lie. */
static off_t place(const struct file_ops *ops, uint64_t iteration)
{
	return (off_t)(iteration % (ops->file_bytes / ops->bytes) * ops->bytes);
}

static void write_at(struct file_ops *ops, off_t at)
{
	if (pwrite(ops->fd, ops->buffer, ops->bytes, at) != (ssize_t)ops->bytes)
		err(EXIT_FAILURE, "cannot write %s/%s", ops->directory, ops->name);
}

static void sync_directory(struct file_ops *ops)
{
	if (fsync(ops->directory_fd))
		err(EXIT_FAILURE, "cannot sync %s", ops->directory);
}

static void open_file(struct file_ops *ops, int flags)
{
	ops->fd = openat(ops->directory_fd, ops->name, flags | O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (ops->fd < 0)
		err(EXIT_FAILURE, "%s/%s", ops->directory, ops->name);
}

static void open_plain(struct file_ops *ops)
{
	open_file(ops, 0);
}

static void open_sync(struct file_ops *ops)
{
	open_file(ops, O_SYNC);
}

static void open_direct(struct file_ops *ops)
{
	open_file(ops, O_DIRECT);
}

/* A file that is on the disk as a whole. */
static void open_full(struct file_ops *ops)
{
	open_file(ops, 0);
	for (uint64_t iteration = 0; iteration < ops->file_bytes / ops->bytes; iteration++)
		write_at(ops, place(ops, iteration));
	if (fsync(ops->fd))
		err(EXIT_FAILURE, "cannot sync %s/%s", ops->directory, ops->name);
}

static void open_mapped(struct file_ops *ops)
{
	open_full(ops);
	ops->map = mmap(NULL, ops->file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ops->fd, 0);
	if (ops->map == MAP_FAILED)
		err(EXIT_FAILURE, "cannot map %s/%s", ops->directory, ops->name);
	madvise(ops->map, ops->file_bytes, MADV_RANDOM);
}

static void write_fdatasync(struct file_ops *ops, uint64_t iteration)
{
	write_at(ops, place(ops, iteration));
	if (fdatasync(ops->fd))
		err(EXIT_FAILURE, "cannot sync %s/%s", ops->directory, ops->name);
}

static void write_fsync(struct file_ops *ops, uint64_t iteration)
{
	write_at(ops, place(ops, iteration));
	if (fsync(ops->fd))
		err(EXIT_FAILURE, "cannot sync %s/%s", ops->directory, ops->name);
}

static void write_only(struct file_ops *ops, uint64_t iteration)
{
	write_at(ops, place(ops, iteration));
}

/* The file has either of two names. */
static void rename_once(struct file_ops *ops, uint64_t iteration)
{
	char other[300];

	snprintf(other, sizeof(other), "%s.other", ops->name);
	const char *from = iteration % 2 ? other : ops->name,
		   *to = iteration % 2 ? ops->name : other;
	if (renameat(ops->directory_fd, from, ops->directory_fd, to))
		err(EXIT_FAILURE, "cannot rename %s/%s", ops->directory, from);
	sync_directory(ops);
}

static void make_victim(struct file_ops *ops, uint64_t iteration)
{
	(void)iteration;
	open_file(ops, 0);
	write_at(ops, 0);
	if (fsync(ops->fd) || close(ops->fd))
		err(EXIT_FAILURE, "cannot sync %s/%s", ops->directory, ops->name);
}

static void unlink_once(struct file_ops *ops, uint64_t iteration)
{
	(void)iteration;
	if (unlinkat(ops->directory_fd, ops->name, 0))
		err(EXIT_FAILURE, "cannot remove %s/%s", ops->directory, ops->name);
	sync_directory(ops);
}

static void open_nothing(struct file_ops *ops)
{
	(void)ops;
}

/* The kernel leaves pages in memory that are still in use elsewhere, so this is tried only. */
static void make_cold(struct file_ops *ops, uint64_t iteration)
{
	if (ops->map)
		madvise(ops->map + place(ops, iteration), ops->bytes, MADV_DONTNEED);
	posix_fadvise(ops->fd, place(ops, iteration), (off_t)ops->bytes, POSIX_FADV_DONTNEED);
}

static void read_cold(struct file_ops *ops, uint64_t iteration)
{
	if (pread(ops->fd, ops->buffer, ops->bytes, place(ops, iteration)) != (ssize_t)ops->bytes)
		err(EXIT_FAILURE, "cannot read %s/%s", ops->directory, ops->name);
}

static void touch(struct file_ops *ops, uint64_t iteration, bool write)
{
	volatile char *at = ops->map + place(ops, iteration);

	for (size_t page = 0; page < ops->bytes; page += PAGE) {
		char byte = at[page];
		if (write)
			at[page] = (char)(byte + 1);
	}
}

static void fault_read(struct file_ops *ops, uint64_t iteration)
{
	touch(ops, iteration, false);
}

static void fault_write(struct file_ops *ops, uint64_t iteration)
{
	touch(ops, iteration, true);
}

static const struct operation operations[] = {
	{"fdatasync", open_plain, NULL, write_fdatasync},
	{"fsync", open_plain, NULL, write_fsync},
	{"o-sync", open_sync, NULL, write_only},
	{"o-direct", open_direct, NULL, write_only},
	{"rename", open_full, NULL, rename_once},
	{"unlink", open_nothing, make_victim, unlink_once},
	{"sqlite-wal", sqlite_open_wal, NULL, sqlite_commit},
	{"sqlite-rollback", sqlite_open_rollback, NULL, sqlite_commit},
	{"read", open_full, make_cold, read_cold},
	{"fault-read", open_mapped, make_cold, fault_read},
	{"fault-write", open_mapped, make_cold, fault_write},
};

#define OPERATIONS (sizeof(operations) / sizeof(operations[0]))

const struct operation *find_operation(const char *name)
{
	for (size_t i = 0; i < OPERATIONS; i++)
		if (!strcmp(operations[i].name, name))
			return &operations[i];
	return NULL;
}

void list_operations(void)
{
	for (size_t i = 0; i < OPERATIONS; i++)
		puts(operations[i].name);
}
