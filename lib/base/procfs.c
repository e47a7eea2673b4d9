/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/procfs.h"

#include "base/dirent.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

bool tek__procfs_exists(pid_t tid)
{
	const int saved = errno;
	const bool exists = syscall(SYS_sched_getscheduler, tid) >= 0 || errno != ESRCH;

	errno = saved;
	return exists;
}

/* The file's beginning as a string; false if there is none. */
static bool read_file(const char *path, char *text, size_t size)
{
	int saved = errno, cancellation;
	ssize_t length = -1;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		length = read(fd, text, size - 1);
		close(fd);
	}
	pthread_setcancelstate(cancellation, NULL);
	errno = saved;
	if (length <= 0)
		return false;
	text[length] = '\0';
	return true;
}

bool tek__procfs_text(pid_t tid, const char *name, char *text, size_t size)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)tid, name);
	return tek__procfs_exists(tid) && read_file(path, text, size);
}

bool tek__procfs_own_text(const char *name, char *text, size_t size)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/self/%s", name);
	return read_file(path, text, size);
}

bool tek__procfs_thread_name(pid_t tid, char name[16])
{
	char path[48], text[32];

	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", (int)tid);
	if (!tek__procfs_exists(tid) || !read_file(path, text, sizeof(text)))
		return false;
	/* It ends in a newline, and may have more of them. */
	size_t length = strlen(text);
	length = length && text[length - 1] == '\n' ? length - 1 : length;
	length = length < 15 ? length : 15;
	memcpy(name, text, length);
	name[length] = '\0';
	return true;
}

bool tek__procfs_stat(pid_t tid, enum tek_stat_field field, uint64_t *value)
{
	char text[1024];

	if (!tek__procfs_text(tid, "stat", text, sizeof(text)))
		return false;
	/* The program's name, field 2, may hold anything; it ends at the last ')'. */
	const char *at = strrchr(text, ')');
	for (int number = 2; at && number < (int)field; number++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	if (!at)
		return false;
	*value = strtoull(at, NULL, 10);
	return true;
}

bool tek__procfs_is_ending(pid_t tid, bool *ending)
{
	enum { PF_EXITING = 4 };
	uint64_t flags;
	bool known = tek__procfs_stat(tid, TEK_STAT_FLAGS, &flags);

	*ending = known && flags & PF_EXITING;
	return known;
}

pid_t tek__procfs_process_of(pid_t tid)
{
	char text[1024];
	static const char key[] = "\nTgid:";

	/* The name stands in the first line, its own line ends escaped. */
	const char *at = tek__procfs_text(tid, "status", text, sizeof(text)) ? strstr(text, key)
									     : NULL;
	return at ? (pid_t)strtol(at + strlen(key), NULL, 10) : 0;
}

bool tek__procfs_futex(pid_t tid, uintptr_t *address)
{
	char path[48], text[64], *after;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
	if (!tek__procfs_exists(tid) || !read_file(path, text, sizeof(text)))
		return false;
	/* "running", or the number of the call and its arguments. */
	const long call = strtol(text, &after, 10);
	const bool is_futex = after != text && (call == SYS_futex
#ifdef SYS_futex_time64
						|| call == SYS_futex_time64
#endif
					       );
	*address = is_futex ? (uintptr_t)strtoull(after, NULL, 16) : 0;
	return true;
}

bool tek__procfs_run_delay(pid_t tid, uint64_t *ran_ns, uint64_t *delayed_ns)
{
	char path[48], text[80], *after;

	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", (int)tid);
	if (!tek__procfs_exists(tid) || !read_file(path, text, sizeof(text)))
		return false;
	*ran_ns = strtoull(text, &after, 10);
	*delayed_ns = strtoull(after, NULL, 10);
	return true;
}

void tek__procfs_each_thread(void (*visit)(pid_t tid, void *context), void *context)
{
	_Alignas(struct tek_dirent) char entries[4096];
	const int saved = errno;
	int cancellation;
	long length;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
	int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (fd >= 0 && (length = syscall(SYS_getdents64, fd, entries, sizeof(entries))) > 0) {
		for (long at = 0; at < length;) {
			const struct tek_dirent *entry = (const void *)(entries + at);
			const pid_t tid = (pid_t)strtol(entry->name, NULL, 10);
			if (tid > 0) /* not "." or ".." */
				visit(tid, context);
			at += entry->bytes;
		}
	}
	if (fd >= 0)
		close(fd);
	pthread_setcancelstate(cancellation, NULL);
	errno = saved;
}

uint64_t tek__procfs_pid_namespace(void)
{
	struct stat status;
	int saved = errno;
	bool known = stat("/proc/self/ns/pid", &status) == 0;

	errno = saved;
	return known ? status.st_ino : 0;
}
