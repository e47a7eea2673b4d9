/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Thread time that is easily attributed wrongly.  profile_weak WHAT spends one kind of such time,
 * and prints its own measurement by the clock: shares in 1/1000 of its time in files, in the
 * allocator, and in a system call that no profiler knows; and that time in ns.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FILES, ALLOCATOR, OTHER, WORK, PARTS };

static long used[PARTS], last;
static volatile unsigned long sink;

static long ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The time since the last call was of this part. */
static void was(int part)
{
	long now = ns();
	used[part] += now - last;
	last = now;
}

static void work(int times)
{
	for (int i = 0; i < times * 1000; i++)
		sink += sink * (unsigned long)i;
	was(WORK);
}

/* Lines arrive by a pipe one by one, or in pieces that end anywhere. */
static void lines(int piece)
{
	int pipes[2];
	char line[64];

	if (pipe(pipes) != 0)
		abort();
	if (fork() == 0) {
		char text[1200];
		struct timespec pause = {0, 1000000};
		memset(text, '.', sizeof(text));
		for (int i = 29; i < (int)sizeof(text); i += 30)
			text[i] = '\n';
		for (int i = 0; i < 400; i++) {
			(void)!write(pipes[1], text + i % 40 * 30 + (piece == 30 ? 0 : 7),
				     (size_t)(i % 40 > 20 ? 30 : piece));
			nanosleep(&pause, NULL);
		}
		_exit(0);
	}
	close(pipes[1]);
	FILE *in = fdopen(pipes[0], "r");
	last = ns();
	while (fgets(line, sizeof(line), in)) {
		was(FILES);
		work(20);
	}
	was(FILES);
}

/*
 * The program calls the allocator, and so do the functions that it calls, as often.  The
 * calls are long: the program's own clock includes the profiler's time in each of them.
 */
static void nested(void)
{
	static char bytes[4 << 20];

	/* Such blocks come from the heap, which is cleared each time. */
	mallopt(M_MMAP_THRESHOLD, 16 << 20);
	mallopt(M_TRIM_THRESHOLD, 64 << 20);
	for (int i = 0; i < 500; i++) {
		for (int k = 0; k < 4; k++) {
			FILE *file = fopen("/dev/zero", "r");
			if (fread(bytes, 1, sizeof(bytes), file) != sizeof(bytes))
				abort();
			fclose(file);
		}
		was(FILES);
		for (int k = 0; k < 8; k++) {
			void *block = calloc(1, 1 << 20);
			*(volatile char *)block;
			free(block);
		}
		was(ALLOCATOR);
	}
}

/* One free() returns memory that many page faults took. */
static void large(void)
{
	for (int i = 0; i < 600; i++)
		free(malloc(100));
	last = ns();
	for (int i = 0; i < 60; i++) {
		char *block = malloc(32 << 20);
		was(ALLOCATOR);
		for (size_t at = 0; at < 32 << 20; at += 4096)
			block[at] = 1;
		was(WORK);
		free(block);
		was(ALLOCATOR);
	}
}

/* Long calls for files that never sleep; and an unknown call that sleeps. */
static void other(void)
{
	static char bytes[1 << 20];
	int word = 0, fd = open("/dev/zero", O_RDONLY);

	last = ns();
	for (int i = 0; i < 100; i++) {
		struct timespec time = {0, 5000000};
		for (int k = 0; k < 150; k++)
			(void)!read(fd, bytes, sizeof(bytes));
		was(FILES);
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0);
		was(OTHER);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	long began = last = ns();

	if (strcmp(what, "lines") == 0)
		lines(30);
	else if (strcmp(what, "pieces") == 0)
		lines(41);
	else if (strcmp(what, "nested") == 0)
		nested();
	else if (strcmp(what, "large") == 0)
		large();
	else if (strcmp(what, "other") == 0)
		other();
	else
		return 2;
	long all = ns() - began;
	printf("%ld %ld %ld %ld\n", used[FILES] * 1000 / all, used[ALLOCATOR] * 1000 / all,
	       used[OTHER] * 1000 / all, all);
	return 0;
}
