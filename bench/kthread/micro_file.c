/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Table 4: files, and memory that is mapped. */
#include "micro.h"

#include "../response/clock.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILES 60
#define ROUNDS 7
#define MAPPED (8u << 20)
#define PAGE 4096

static char content[10 << 10];

struct times {
	double create_us, delete_us;
};

static struct times files_of(size_t bytes)
{
	double create[ROUNDS], delete[ROUNDS];
	char name[32];

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t begin = clock_ns();
		for (int i = 0; i < FILES; i++) {
			snprintf(name, sizeof(name), "micro-%d", i);
			int fd = (int)must(creat(name, 0600), name);
			if (bytes)
				must(write(fd, content, bytes), name);
			close(fd);
		}
		uint64_t middle = clock_ns();
		for (int i = 0; i < FILES; i++) {
			snprintf(name, sizeof(name), "micro-%d", i);
			must(unlink(name), name);
		}
		create[round] = (double)(middle - begin) / FILES / 1e3;
		delete[round] = (double)(clock_ns() - middle) / FILES / 1e3;
	}
	return (struct times){median(create, ROUNDS), median(delete, ROUNDS)};
}

/* Deleting was measured with creating, of files of the same size. */
static struct times last;

static double measure_create_0k(void)
{
	last = files_of(0);
	return last.create_us;
}

static double measure_create_10k(void)
{
	last = files_of(sizeof(content));
	return last.create_us;
}

static double measure_delete(void)
{
	return last.delete_us;
}

static int open_mapped(void)
{
	int fd = (int)must(open("micro-mapped", O_RDWR | O_CREAT | O_TRUNC, 0600), "micro-mapped");
	for (unsigned done = 0; done < MAPPED; done += sizeof(content))
		must(write(fd, content, sizeof(content)), "micro-mapped");
	must(unlink("micro-mapped"), "micro-mapped");
	return fd;
}

static int mapped;

static volatile char *map(void)
{
	void *memory = mmap(NULL, MAPPED, PROT_READ, MAP_SHARED, mapped, 0);
	must(memory == MAP_FAILED ? -1 : 0, "mmap");
	return memory;
}

/* As lmbench does: map, touch some of it, unmap. */
static void map_unmap(unsigned times)
{
	while (times--) {
		volatile char *memory = map();
		for (unsigned i = 0; i < MAPPED; i += 64 * PAGE)
			(void)memory[i];
		munmap((void *)memory, MAPPED);
	}
}

static double measure_mmap(void)
{
	mapped = open_mapped();
	double us = time_ns(map_unmap, 30) / 1e3;
	close(mapped);
	return us;
}

static volatile char *forbidden;

static void allow(int signal)
{
	(void)signal;
	must(mprotect((void *)forbidden, PAGE, PROT_READ | PROT_WRITE), "mprotect");
}

static void fault(unsigned times)
{
	while (times--) {
		must(mprotect((void *)forbidden, PAGE, PROT_READ), "mprotect");
		*forbidden = 1;
	}
}

/* With the two calls that let it happen again. */
static double measure_protection_fault(void)
{
	struct sigaction action = {.sa_handler = allow}, before;
	void *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(memory == MAP_FAILED ? -1 : 0, "mmap");
	forbidden = memory;
	sigaction(SIGSEGV, &action, &before);
	double us = time_ns(fault, 2000) / 1e3;
	sigaction(SIGSEGV, &before, NULL);
	munmap(memory, PAGE);
	return us;
}

static void touch_all(unsigned times)
{
	while (times--) {
		volatile char *memory = map();
		madvise((void *)memory, MAPPED, MADV_RANDOM);
		for (unsigned i = 0; i < MAPPED; i += PAGE)
			(void)memory[i];
		munmap((void *)memory, MAPPED);
	}
}

static double measure_page_fault(void)
{
	mapped = open_mapped();
	double us = time_ns(touch_all, 3) / (MAPPED / PAGE) / 1e3;
	close(mapped);
	return us;
}

const struct column file_columns[] = {
	{4, "0k file create", "us", measure_create_0k},
	{4, "0k file delete", "us", measure_delete},
	{4, "10k file create", "us", measure_create_10k},
	{4, "10k file delete", "us", measure_delete},
	{4, "mmap latency", "us", measure_mmap},
	{4, "prot fault", "us", measure_protection_fault},
	{4, "page fault", "us", measure_page_fault},
	{0, NULL, NULL, NULL},
};
