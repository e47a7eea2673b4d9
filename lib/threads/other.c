/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A thread of another process, from that process's table. The table is read by system calls, and
 * each field is checked before use: its owner may write anything.
 */
#include "base/procfs.h"
#include "base/time_namespace.h"
#include "threads/attributes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	PATH_BYTES = 512,
	TRIES = 64, /* for a record that is being written */
	BATCH = 64, /* records read at a time: it may be a small stack */
};

/* A process as its table has to describe it. */
struct process {
	pid_t pid;
	uid_t user;
	uint64_t start_ns; /* time_namespace.h; 0: not known */
};

/* An open table that is the process's own. */
struct open_table {
	int fd;
	unsigned int slots;
	size_t page_bytes;
	int64_t boot_offset_ns; /* of its clock */
};

static bool read_at(int fd, void *to, size_t bytes, uint64_t offset)
{
	return pread(fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

static bool describes(const struct tek_table_header *header, const struct process *process)
{
	uint64_t namespace = tek__procfs_pid_namespace();
	bool known = header->start_ns && process->start_ns;

	return header->magic == TEK_TABLE_MAGIC && header->version == TEK_ABI_VERSION &&
	       header->pid == (tek_u32)process->pid &&
	       (!known || tek__is_same_start(header->start_ns, process->start_ns)) &&
	       (!header->pid_namespace || header->pid_namespace == namespace);
}

static bool makes_sense(const struct tek_table_header *header)
{
	return header->record_bytes == sizeof(struct tek_record) &&
	       header->side_bytes == sizeof(struct tek_side) && header->slots <= TEK_MAX_SLOTS &&
	       header->page_bytes && !(header->page_bytes & (header->page_bytes - 1));
}

/* Returns 0, ENODATA if there is no table of this process, or EACCES, or EBADMSG. */
static int try_open(const char *directory, const struct process *process, struct open_table *table)
{
	char path[PATH_BYTES];
	struct tek_table_header header;
	struct stat status;

	if (snprintf(path, sizeof(path), "%s/%d.table", directory, (int)process->pid) >=
	    (int)sizeof(path))
		return ENODATA;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES ? EACCES : ENODATA;
	int error = ENODATA;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
	    (status.st_uid == process->user || status.st_uid == 0) &&
	    read_at(fd, &header, sizeof(header), 0) && describes(&header, process))
		error = makes_sense(&header) ? 0 : EBADMSG;
	if (error) {
		close(fd);
		return error;
	}
	*table = (struct open_table){
		.fd = fd,
		.slots = header.slots,
		.page_bytes = header.page_bytes,
		.boot_offset_ns = header.boot_offset_ns,
	};
	return 0;
}

/* In a directory for run-time files and in those of single runs (`tek run`) below it. */
static int search(const char *base, const struct process *process, struct open_table *table)
{
	char run[PATH_BYTES];
	int error = try_open(base, process, table);
	DIR *directory = error == ENODATA ? opendir(base) : NULL;
	struct dirent *entry;

	while (directory && error == ENODATA && (entry = readdir(directory))) {
		if (strncmp(entry->d_name, "run-", 4) == 0 &&
		    snprintf(run, sizeof(run), "%s/%s", base, entry->d_name) < (int)sizeof(run))
			error = try_open(run, process, table);
	}
	if (directory)
		closedir(directory);
	return error;
}

/*
 * True if a directory in /tmp, where any user can make names and links, belongs to this user alone.
 */
static bool is_of_user(const char *directory, uid_t user)
{
	struct stat status;
	return lstat(directory, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == user &&
	       !(status.st_mode & 022);
}

/* Where a process of this user may have its table; docs/man/libtek.7, TEK_RUN_DIR. */
static int find_table(const struct process *process, struct open_table *table)
{
	const char *given = secure_getenv("TEK_RUN_DIR");
	const char *run_time = secure_getenv("XDG_RUNTIME_DIR");
	const char *given_temporary = secure_getenv("TMPDIR");
	const char *const temporary[] = {given_temporary ? given_temporary : "/tmp", "/tmp",
					 "/var/tmp"};
	enum { FIXED = 2, BASES = FIXED + sizeof(temporary) / sizeof(temporary[0]) };
	char bases[BASES][PATH_BYTES] = {"", "/run/tek"};
	int error = ENODATA;

	if (given)
		snprintf(bases[0], PATH_BYTES, "%s", given);
	if (process->user != 0 && run_time && process->user == geteuid())
		snprintf(bases[1], PATH_BYTES, "%s/tek", run_time);
	else if (process->user != 0)
		snprintf(bases[1], PATH_BYTES, "/run/user/%u/tek", process->user);
	for (size_t i = FIXED; i < BASES; i++) {
		snprintf(bases[i], PATH_BYTES, "%s/tek-%u", temporary[i - FIXED], process->user);
		if (!is_of_user(bases[i], process->user))
			bases[i][0] = '\0';
	}
	for (size_t i = 0; i < BASES && error == ENODATA; i++)
		if (bases[i][0] == '/')
			error = search(bases[i], process, table);
	return error;
}

static uint64_t chunk_at(unsigned int slot)
{
	return TEK_TABLE_HEADER_BYTES + (uint64_t)(slot / TEK_CHUNK_SLOTS) * TEK_TABLE_CHUNK_BYTES;
}

static uint64_t record_at(unsigned int slot)
{
	return chunk_at(slot) + slot % TEK_CHUNK_SLOTS * sizeof(struct tek_record);
}

static uint64_t side_at(unsigned int slot)
{
	return chunk_at(slot) + TEK_CHUNK_SIDE_OFFSET +
	       slot % TEK_CHUNK_SLOTS * sizeof(struct tek_side);
}

/* Orders the reads before it before the reads after it. */
static void fence(void)
{
#ifndef __SANITIZE_THREAD__ /* which does not know fences */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

/* The record of a slot if it is this thread's. Returns 0, ENODATA, EBUSY or EBADMSG. */
static int read_slot(const struct open_table *table, unsigned int slot, pid_t tid,
		     struct tek_attributes *attributes)
{
	struct tek_record before, record, after;
	struct tek_side side;

	/* The protocol of abi/tek_table.h for system calls; the calls alone order nothing. */
	for (int attempt = 0; attempt < TRIES; attempt++) {
		if (!read_at(table->fd, &before, sizeof(before), record_at(slot)))
			return EBADMSG;
		fence();
		if (!read_at(table->fd, &record, sizeof(record), record_at(slot)) ||
		    !read_at(table->fd, &side, sizeof(side), side_at(slot)))
			return EBADMSG;
		fence();
		if (!read_at(table->fd, &after, sizeof(after), record_at(slot)))
			return EBADMSG;
		if (before.seq != after.seq || before.seq & 1)
			continue;
		if (record.tid != (tek_u32)tid || record.flags & TEK_FLAG_USER)
			return ENODATA;
		tek__attributes_decode(&record, &side, table->page_bytes, attributes);
		return 0;
	}
	return EBUSY;
}

/*
 * Whether the record can be this thread's, and not that of an earlier one with the same tid.  If
 * so, created_ns becomes a time of the caller's clock.
 */
static bool is_of_thread(const struct open_table *table, struct tek_attributes *attributes)
{
	struct tek_time_offsets offsets;
	uint64_t created_ns = attributes->created_ns - (uint64_t)table->boot_offset_ns;

	tek__time_offsets(&offsets);
	attributes->created_ns = created_ns + (uint64_t)offsets.boottime_ns;
	uint64_t start_ns = tek__start_ns(attributes->tid, &offsets);
	return start_ns && start_ns <= created_ns;
}

static int find_thread(const struct open_table *table, pid_t tid, struct tek_attributes *attributes)
{
	struct tek_record records[BATCH];

	for (unsigned int slot = 0; slot < table->slots; slot += BATCH) {
		if (!read_at(table->fd, records, sizeof(records), record_at(slot)))
			return EBADMSG;
		for (unsigned int i = 0; i < BATCH; i++) {
			if (records[i].tid != (tek_u32)tid || records[i].flags & TEK_FLAG_USER)
				continue;
			int error = read_slot(table, slot + i, tid, attributes);
			if (error != ENODATA)
				return error || is_of_thread(table, attributes) ? error : ENODATA;
		}
	}
	return ENODATA;
}

/* The process of a thread: its user and its start. */
static bool examine(pid_t tid, struct process *process)
{
	char path[32];
	struct stat status;
	struct tek_time_offsets offsets;

	process->pid = tek__procfs_process_of(tid);
	snprintf(path, sizeof(path), "/proc/%d", (int)process->pid);
	if (!process->pid || !tek__procfs_exists(process->pid) || stat(path, &status))
		return false;
	process->user = status.st_uid;
	process->start_ns = tek__time_offsets(&offsets) ? tek__start_ns(process->pid, &offsets) : 0;
	return true;
}

int tek__attributes_of_other(pid_t tid, struct tek_attributes *attributes)
{
	struct process process;
	struct open_table table;
	int saved = errno, cancellation;

	/* Files are open in between. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
	int error = examine(tid, &process) ? find_table(&process, &table) : ESRCH;
	if (error == 0) {
		error = find_thread(&table, tid, attributes);
		close(table.fd);
	}
	pthread_setcancelstate(cancellation, NULL);
	errno = saved;
	return error;
}
