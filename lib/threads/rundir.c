/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "threads/rundir.h"

#include "base/dirent.h"
#include "base/owner.h"
#include "base/procfs.h"
#include "base/time_namespace.h"
#include "tek_abi.h"

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

const char *tek__rundir_ending = ".table";

/* *made: TEK makes it if it is missing. */
static bool find_directory(char *directory, bool *made)
{
	const char *given = secure_getenv("TEK_RUN_DIR");
	const char *user = secure_getenv("XDG_RUNTIME_DIR");
	int length;

	/* A given directory has an owner, which may have removed it again. */
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

bool tek__rundir_is_given(void)
{
	char directory[DIRECTORY_BYTES];
	bool made;
	return find_directory(directory, &made) && !made;
}

bool tek__rundir_table(char *path, size_t size)
{
	char directory[DIRECTORY_BYTES];
	bool made;
	return find_directory(directory, &made) &&
	       snprintf(path, size, "%s/%d%s", directory, (int)tek__owner->pid(),
			tek__rundir_ending) < (int)size;
}

/* The pid in the name of a table file, hidden or not; 0 if it is none. */
static pid_t pid_of(const char *name)
{
	char *end;
	long pid = strtol(name, &end, 10);
	bool is_table = strcmp(end, ".table") == 0 || strcmp(end, ".table~") == 0 ||
			strcmp(end, TEK_RUNDIR_NATIVE) == 0;
	return pid > 0 && pid <= INT32_MAX && is_table ? (pid_t)pid : 0;
}

static bool read_header(int directory, const char *path, struct tek_table_header *header)
{
	int fd = openat(directory, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : pread(fd, header, sizeof(*header), 0);

	if (fd >= 0)
		close(fd);
	return length == sizeof(*header) && header->magic == TEK_TABLE_MAGIC;
}

static bool is_foreign(const struct tek_table_header *header)
{
	return header->pid_namespace && header->pid_namespace != tek__procfs_pid_namespace();
}

bool tek__rundir_is_foreign(const char *path)
{
	struct tek_table_header header;
	return read_header(AT_FDCWD, path, &header) && is_foreign(&header);
}

/*
 * True if the process that wrote a table file is gone: no process has its pid, or one with another
 * start time. A file without that information counts as alive, and so does one of another pid
 * namespace: its pids mean nothing here.
 */
static bool is_dead(int directory, const char *name, pid_t owner)
{
	struct tek_table_header header;
	struct tek_time_offsets offsets;
	bool gone = kill(owner, 0) && errno == ESRCH;

	if (owner == tek__owner->pid())
		return false; /* ours, or it makes room for ours in a moment */
	if (!read_header(directory, name, &header))
		return gone;
	if (is_foreign(&header))
		return false;
	if (gone || !header.start_ns || !tek__time_offsets(&offsets))
		return gone;
	uint64_t start_ns = tek__start_ns(owner, &offsets);
	return start_ns && !tek__is_same_start(start_ns, header.start_ns);
}

/* True if the owner of the directory may learn from it. */
static bool has_kinds(int directory, const char *name)
{
	struct tek_table_header header;
	return read_header(directory, name, &header) && header.kinds;
}

static void remove_dead(int directory, bool is_given)
{
	_Alignas(struct tek_dirent) char entries[4096];
	long length;

	while ((length = syscall(SYS_getdents64, directory, entries, sizeof(entries))) > 0) {
		for (long at = 0; at < length;) {
			const struct tek_dirent *entry = (const void *)(entries + at);
			pid_t pid = pid_of(entry->name);
			if (pid && is_dead(directory, entry->name, pid) &&
			    !(is_given && has_kinds(directory, entry->name)))
				unlinkat(directory, entry->name, 0);
			at += entry->bytes;
		}
	}
}

/* In a directory that other users can write to, our files could be swapped. */
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
		remove_dead(fd, !made);
	close(fd);
	return trusted;
}
