/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The operations of file_ops: each of them is something after which a program has its data on the
 * disk, or has data from there.
 *
 * prepare() does what is not measured, once before each time; work() is measured.  Both exit with a
 * message on failure.
 */
#ifndef KTHREAD_FILE_OPS_H
#define KTHREAD_FILE_OPS_H

#include <stddef.h>
#include <stdint.h>

struct file_ops {
	const char *directory; /* on the disk */
	const char *name;      /* of the file there */
	size_t bytes;          /* of each write or read */
	uint64_t file_bytes;   /* of the file, after which it begins anew */

	/* Made by open(). */
	int directory_fd, fd;
	char *buffer;
	char *map;
};

struct operation {
	const char *name;
	void (*open)(struct file_ops *ops);
	void (*prepare)(struct file_ops *ops, uint64_t iteration); /* or NULL */
	void (*work)(struct file_ops *ops, uint64_t iteration);
};

/* The operation of this name; NULL where there is none. */
const struct operation *find_operation(const char *name);

/* Print their names, one a line. */
void list_operations(void);

/*
 * Commits of SQLite: file_ops_sqlite.c.  It exits with the status 77 where the library is missing.
 */
void sqlite_open_wal(struct file_ops *ops);
void sqlite_open_rollback(struct file_ops *ops);
void sqlite_commit(struct file_ops *ops, uint64_t iteration);

#endif
