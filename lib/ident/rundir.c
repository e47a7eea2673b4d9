/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ident/rundir.h"

#include "ident/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DIRECTORY_BYTES = 400 };

/* *made: TEK makes it if it is missing. */
static bool find_directory(char *directory, bool *made)
{
	const char *given = secure_getenv("TEK_RUN_DIR");
	const char *user = secure_getenv("XDG_RUNTIME_DIR");
	int length;

	/* A given one belongs to somebody, who may have removed it again. */
	*made = !given || !*given;
	if (!*made)
		length = snprintf(directory, DIRECTORY_BYTES, "%s", given);
	else if (geteuid() == 0)
		length = snprintf(directory, DIRECTORY_BYTES, "/run/tek");
	else if (user && *user)
		length = snprintf(directory, DIRECTORY_BYTES, "%s/tek", user);
	else
		return false;
	return length < DIRECTORY_BYTES;
}

bool tek__rundir_table(char *path, size_t size)
{
	char directory[DIRECTORY_BYTES];
	bool made;
	return find_directory(directory, &made) &&
	       snprintf(path, size, "%s/%d.table", directory, (int)tek__pid()) < (int)size;
}

/* The pid in the name of a table file; 0 if it is none. */
static pid_t pid_of(const char *name)
{
	char *end;
	long pid = strtol(name, &end, 10);
	return pid > 0 && pid <= INT32_MAX && strcmp(end, ".table") == 0 ? (pid_t)pid : 0;
}

/* getdents64(2); the C library's opendir() would allocate, here within pthread_create(). */
struct kernel_dirent {
	uint64_t inode;
	int64_t offset;
	unsigned short bytes;
	unsigned char type;
	char name[];
};

static void remove_dead(int directory)
{
	_Alignas(struct kernel_dirent) char entries[4096];
	long length;

	while ((length = syscall(SYS_getdents64, directory, entries, sizeof(entries))) > 0) {
		for (long at = 0; at < length;) {
			const struct kernel_dirent *entry = (const void *)(entries + at);
			pid_t pid = pid_of(entry->name);
			if (pid && kill(pid, 0) && errno == ESRCH)
				unlinkat(directory, entry->name, 0);
			at += entry->bytes;
		}
	}
}

/* In a directory that others can write to, our files could be swapped. */
static bool is_trusted(int directory)
{
	struct stat status;
	return fstat(directory, &status) == 0 && (status.st_mode & 022) == 0 &&
	       (status.st_uid == geteuid() || status.st_uid == 0);
}

bool tek__rundir_prepare(void)
{
	char directory[DIRECTORY_BYTES];
	bool made;

	if (!find_directory(directory, &made) ||
	    (made && mkdir(directory, 0755) && errno != EEXIST))
		return false;
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return false;
	bool trusted = is_trusted(fd);
	if (trusted)
		remove_dead(fd);
	close(fd);
	return trusted;
}
