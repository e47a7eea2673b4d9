/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * keeper - changes settings of the machine for a benchmark and puts all of them back, however the
 * benchmark ends: it reads commands on standard input, and the end of that is the benchmark's.
 *
 *   keep PATH          remember what is in this file
 *   write PATH VALUE   and write this to it
 *   static PRIORITY    make all kworkers, kswapd and ksoftirqd SCHED_FIFO, as tools do that know
 *                      nothing of which thread waits for which
 *   trace NAME         make an instance of the kernel's tracing of this name, below TRACING in this
 *                      process's own file system (/proc/PID/root): no other process sees it mounted
 *   undo               put back what was changed, the last first
 *
 * It answers `ok`, or `no: REASON`.
 */
#include <ctype.h>
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILES 64
#define MAX_THREADS 4096
#define KERNEL_THREAD 0x200000
#define TRACING "/sys/kernel/tracing"
/* Above every load of the benchmark. */
#define OWN_PRIORITY 97

struct file {
	char path[200];
	char content[200];
};

struct thread {
	int tid;
	unsigned long long start;
	int policy, priority, nice;
};

static struct file files[MAX_FILES];
static struct thread threads[MAX_THREADS];
static int file_count, thread_count;
static char instance[200];

static void answer(const char *format, ...)
{
	va_list list;
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	putchar('\n');
	fflush(stdout);
}

static bool read_file(const char *path, char *content, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, content, size - 1);
	if (fd >= 0)
		close(fd);
	content[length > 0 ? length : 0] = '\0';
	return length >= 0;
}

static bool write_file(const char *path, const char *content)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, content, strlen(content)) == (ssize_t)strlen(content);
	if (fd >= 0)
		close(fd);
	return done;
}

static bool keep(const char *path)
{
	char other[sizeof(files->path)];
	size_t length = strlen(path);

	/* vm.dirty_bytes is unset by writing vm.dirty_ratio, which is put back after it. */
	if (length > 6 && length < sizeof(other) && !strcmp(path + length - 6, "_bytes")) {
		snprintf(other, sizeof(other), "%.*s_ratio", (int)length - 6, path);
		if (!keep(other))
			return false;
	}
	for (int i = 0; i < file_count; i++)
		if (!strcmp(files[i].path, path))
			return true;
	struct file *file = &files[file_count];
	if (file_count == MAX_FILES || length >= sizeof(file->path) ||
	    !read_file(path, file->content, sizeof(file->content)))
		return false;
	strcpy(file->path, path);
	file_count++;
	return true;
}

/* Its start time if this is a kernel thread, and its name; 0: it is none. */
static unsigned long long kernel_thread(int tid, char *name, size_t size)
{
	char path[64], text[1024];
	unsigned long flags;
	unsigned long long start;

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	if (!read_file(path, text, sizeof(text)))
		return 0;
	char *begin = strchr(text, '('), *end = strrchr(text, ')');
	if (!begin || !end)
		return 0;
	*end = '\0';
	snprintf(name, size, "%s", begin + 1);
	/* state ppid pgrp session tty tpgid flags, then 12 others, then the start time */
	if (sscanf(end + 2,
		   "%*c %*d %*d %*d %*d %*d %lu %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d "
		   "%llu",
		   &flags, &start) != 2)
		return 0;
	return flags & KERNEL_THREAD ? start : 0;
}

static bool is_served_by(const char *name)
{
	return !strncmp(name, "kworker", 7) || !strncmp(name, "kswapd", 6) ||
	       !strncmp(name, "ksoftirqd", 9);
}

static void make_static(int priority)
{
	struct sched_param param = {.sched_priority = priority}, before;
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	char name[64];

	while (proc && (entry = readdir(proc)) && thread_count < MAX_THREADS) {
		int tid = isdigit((unsigned char)*entry->d_name) ? atoi(entry->d_name) : 0;
		unsigned long long start = tid ? kernel_thread(tid, name, sizeof(name)) : 0;
		if (!start || !is_served_by(name))
			continue;
		struct thread thread = {.tid = tid, .start = start};
		thread.policy = sched_getscheduler(tid);
		errno = 0;
		thread.nice = getpriority(PRIO_PROCESS, (id_t)tid);
		if (thread.policy < 0 || errno || sched_getparam(tid, &before))
			continue;
		thread.priority = before.sched_priority;
		threads[thread_count++] = thread;
		sched_setscheduler(tid, SCHED_FIFO, &param);
	}
	if (proc)
		closedir(proc);
}

static bool make_instance(const char *name)
{
	static bool is_mounted;

	if (!is_mounted) {
		if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("tracefs", TRACING, "tracefs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
			return false;
		is_mounted = true;
	}
	snprintf(instance, sizeof(instance), TRACING "/instances/%.100s", name);
	if (!mkdir(instance, 0700))
		return true;
	*instance = '\0';
	return false;
}

/* With it goes all that was set in it. */
static bool remove_instance(void)
{
	bool done = !*instance || !rmdir(instance) || errno == ENOENT;
	*instance = '\0';
	return done;
}

/* Some refuse their own content (see keep()), so what counts is what is in them at the end. */
static bool put_back(void)
{
	char content[sizeof(files->content)];
	bool done = true;

	for (int i = file_count; i-- > 0;)
		write_file(files[i].path, files[i].content);
	for (int i = 0; i < file_count; i++)
		done = read_file(files[i].path, content, sizeof(content)) &&
		       !strcmp(content, files[i].content) && done;
	file_count = 0;
	return done;
}

static bool undo(void)
{
	char name[64];
	bool done = true;

	while (thread_count) {
		const struct thread *it = &threads[--thread_count];
		struct sched_param param = {.sched_priority = it->priority};
		if (kernel_thread(it->tid, name, sizeof(name)) != it->start)
			continue;
		/* It may end in between. */
		if ((sched_setscheduler(it->tid, it->policy, &param) ||
		     setpriority(PRIO_PROCESS, (id_t)it->tid, it->nice)) &&
		    errno != ESRCH)
			done = false;
	}
	done = remove_instance() && done;
	return put_back() && done;
}

static void obey(char *line)
{
	char path[200], value[200];
	int priority;

	if (sscanf(line, "write %199s %199s", path, value) == 2) {
		if (keep(path) && write_file(path, value))
			answer("ok");
		else
			answer("no: %s: %s", path, strerror(errno));
	} else if (sscanf(line, "keep %199s", path) == 1) {
		if (keep(path))
			answer("ok");
		else
			answer("no: %s: %s", path, strerror(errno));
	} else if (sscanf(line, "static %d", &priority) == 1) {
		make_static(priority);
		answer(thread_count ? "ok" : "no: there are no kernel threads that it may change");
	} else if (sscanf(line, "trace %199s", path) == 1) {
		if (!*instance && make_instance(path))
			answer("ok");
		else
			answer("no: %s: %s", TRACING, strerror(errno));
	} else if (!strcmp(line, "undo\n")) {
		answer(undo() ? "ok" : "no: not everything could be put back");
	} else {
		answer("no: what is that?");
	}
}

int main(void)
{
	struct sched_param param = {.sched_priority = OWN_PRIORITY};
	char line[512];

	/* A signal that ends the benchmark or its session must not end this program. */
	setsid();
	for (int i = 0; i < 4; i++)
		signal((int[]){SIGINT, SIGTERM, SIGHUP, SIGPIPE}[i], SIG_IGN);
	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param))
		warn("may be kept waiting by real-time threads");
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	if (!undo())
		errx(EXIT_FAILURE, "not everything could be put back");
	return EXIT_SUCCESS;
}
