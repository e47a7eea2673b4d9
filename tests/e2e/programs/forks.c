/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * forks COUNT - starts processes in every way, COUNT times each, while other threads start
 * and end all the time.  A child that goes on as this program makes threads of its own
 * and checks that its table is its own; a child that may do little only checks its
 * identity.  At the end a thread replaces the program by itself, which checks once more.
 *
 * Exit status 0 if all was right; else a line on standard error names the error.
 */
#include "tek_abi.h"

#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char *program;
static atomic_bool stop;

static void fail(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fprintf(stderr, "forks: ");
	vfprintf(stderr, format, arguments);
	fprintf(stderr, "\n");
	va_end(arguments);
	_exit(1);
}

static void *nothing(void *argument)
{
	return argument;
}

static void one_thread(void)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL))
		fail("cannot create a thread");
}

static void *churn(void *unused)
{
	while (!atomic_load(&stop))
		one_thread();
	return unused;
}

/* This process has made a thread, which is gone: its table has `threads` threads. */
static void check_table(const char *subject, unsigned int threads)
{
	struct tek_table_header header;
	char path[512];

	one_thread();
	snprintf(path, sizeof(path), "%s/%d.table", getenv("TEK_RUN_DIR"), (int)getpid());
	FILE *file = fopen(path, "r");
	if (!file)
		fail("%s has no table", subject);
	if (fread(&header, sizeof(header), 1, file) != 1)
		fail("the table of %s is cut", subject);
	fclose(file);
	if (header.pid != (unsigned int)getpid())
		fail("the table of %s is that of %u", subject, header.pid);
	if (header.threads != threads || header.lost)
		fail("the table of %s has %u threads, not %u, and lost %u", subject, header.threads,
		     threads, header.lost);
}

static void check_identity(const char *subject)
{
	if (gettid() != (pid_t)syscall(SYS_gettid) || getpid() != gettid())
		fail("%s takes itself for %d", subject, (int)gettid());
}

static void await(const char *subject, pid_t child)
{
	int status;
	if (child < 0)
		fail("cannot start a child by %s", subject);
	if (waitpid(child, &status, 0) != child || status)
		fail("the child of %s ended with status %#x", subject, (unsigned int)status);
}

static void by_fork(void)
{
	pid_t child = fork();
	if (child == 0) {
		check_identity("a child of fork()");
		check_table("a child of fork()", 1);
		exit(0);
	}
	await("fork()", child);
}

/* It ends without calling its libraries: its table is left to the next process. */
static void by_fork_and_exit(void)
{
	pid_t child = fork();
	if (child == 0) {
		check_table("a child of fork()", 1);
		_exit(0);
	}
	await("fork()", child);
}

/* In a process of several threads it may only make system calls (_Fork(3)). */
static void by_bare_fork(void)
{
	pid_t child = _Fork();
	if (child == 0) {
		check_identity("a child of _Fork()");
		_exit(0);
	}
	await("_Fork()", child);
}

static void by_vfork(void)
{
	pid_t child = vfork();
	if (child == 0) {
		if (gettid() != (pid_t)syscall(SYS_gettid))
			_exit(1);
		execl("/proc/self/exe", program, "check", NULL);
		_exit(1);
	}
	await("vfork()", child);
	if (gettid() != (pid_t)syscall(SYS_gettid))
		fail("after vfork() a thread takes itself for %d", (int)gettid());
}

static void by_spawn(void)
{
	char *const arguments[] = {program, "check", NULL};
	pid_t child;
	if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ))
		child = -1;
	await("posix_spawn()", child);
}

static void *replace(void *unused)
{
	execl("/proc/self/exe", program, "check", NULL);
	return unused;
}

int main(int argc, char **argv)
{
	static void (*const ways[])(void) = {by_fork, by_fork_and_exit, by_bare_fork, by_vfork,
					     by_spawn};
	enum { CHURNING = 2 };
	pthread_t threads[CHURNING], replacing;

	program = argv[0];
	alarm(100); /* it must end by itself */
	if (argc == 2 && strcmp(argv[1], "check") == 0) {
		check_identity("a new program");
		check_table("a new program", 1);
		return 0;
	}
	unsigned long count = argc == 2 ? strtoul(argv[1], NULL, 10) : 1;
	for (int i = 0; i < CHURNING; i++)
		if (pthread_create(&threads[i], NULL, churn, NULL))
			fail("cannot create a thread");
	for (unsigned long i = 0; i < count; i++)
		for (size_t way = 0; way < sizeof(ways) / sizeof(ways[0]); way++)
			ways[way]();
	atomic_store(&stop, true);
	for (int i = 0; i < CHURNING; i++)
		pthread_join(threads[i], NULL);
	check_table("the parent", 1);
	if (pthread_create(&replacing, NULL, replace, NULL) == 0)
		pthread_join(replacing, NULL);
	fail("a thread could not replace the program");
	return 1;
}
