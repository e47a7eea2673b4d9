/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tables 6 and 7: memory. */
#include "micro.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINE 64
#define BIG (8u << 20)
#define CHUNK (64u << 10)

static void **chain;
static char *source, *target;
static int file;

/* Each line points to another one in no order that the processor would guess. */
static void make_chain(size_t bytes)
{
	size_t lines = bytes / LINE;
	char *memory = aligned_alloc(4096, bytes);
	size_t *order = calloc(lines, sizeof(*order));
	uint64_t x = 88172645463325252ull;

	must(memory && order ? 0 : -1, "memory");
	for (size_t i = 0; i < lines; i++)
		order[i] = i;
	for (size_t i = lines - 1; i > 0; i--) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		size_t j = x % (i + 1), retained = order[i];
		order[i] = order[j];
		order[j] = retained;
	}
	for (size_t i = 0; i < lines; i++)
		*(void **)(memory + order[i] * LINE) = memory + order[(i + 1) % lines] * LINE;
	chain = (void **)memory;
	free(order);
}

static void follow(unsigned times)
{
	void **at = chain;
	while (times--)
		at = *at;
	/* Where it came to is used as far as the compiler knows. */
	__asm__ volatile("" : : "r"(at));
}

static double measure_latency(size_t bytes)
{
	make_chain(bytes);
	double ns = time_ns(follow, 200000);
	free(chain);
	return ns;
}

static double measure_l1(void)
{
	return measure_latency(16 << 10);
}

static double measure_l2(void)
{
	return measure_latency(256 << 10);
}

static double measure_main(void)
{
	return measure_latency(64 << 20);
}

static void sum(const char *memory, size_t bytes)
{
	const unsigned long *word = (const unsigned long *)memory;
	unsigned long total = 0;
	for (size_t i = 0; i < bytes / sizeof(*word); i++)
		total += word[i];
	__asm__ volatile("" : : "r"(total));
}

static void copy_libc(unsigned times)
{
	while (times--) {
		memcpy(target, source, BIG);
		__asm__ volatile("" : : "r"(target) : "memory");
	}
}

static void copy_hand(unsigned times)
{
	while (times--)
		for (size_t i = 0; i < BIG; i += sizeof(long)) {
			*(long *)(target + i) = *(const long *)(source + i);
			/* So that it stays a loop, and does not become memcpy(). */
			__asm__ volatile("" : : : "memory");
		}
}

static void read_memory(unsigned times)
{
	while (times--)
		sum(source, BIG);
}

static void write_memory(unsigned times)
{
	while (times--)
		for (size_t i = 0; i < BIG; i += sizeof(long)) {
			*(long *)(target + i) = 1;
			__asm__ volatile("" : : : "memory");
		}
}

static void read_file(unsigned times)
{
	while (times--)
		for (size_t at = 0; at < BIG; at += CHUNK) {
			must(pread(file, target, CHUNK, (off_t)at), "pread");
			sum(target, CHUNK);
		}
}

static void read_mapped(unsigned times)
{
	while (times--) {
		void *memory = mmap(NULL, BIG, PROT_READ, MAP_SHARED, file, 0);
		must(memory == MAP_FAILED ? -1 : 0, "mmap");
		sum(memory, BIG);
		munmap(memory, BIG);
	}
}

/* In MB/s. */
static double bandwidth(void (*work)(unsigned times))
{
	source = aligned_alloc(4096, BIG);
	target = aligned_alloc(4096, BIG);
	must(source && target ? 0 : -1, "memory");
	memset(source, 1, BIG);
	memset(target, 1, BIG);
	file = (int)must(open("micro-file", O_RDWR | O_CREAT | O_TRUNC, 0600), "micro-file");
	must(unlink("micro-file"), "micro-file");
	must(write(file, source, BIG), "micro-file");
	double ns = time_ns(work, 4);
	close(file);
	free(source);
	free(target);
	return BIG / ns * 1e3;
}

static double measure_file(void)
{
	return bandwidth(read_file);
}

static double measure_mapped(void)
{
	return bandwidth(read_mapped);
}

static double measure_libc(void)
{
	return bandwidth(copy_libc);
}

static double measure_hand(void)
{
	return bandwidth(copy_hand);
}

static double measure_read(void)
{
	return bandwidth(read_memory);
}

static double measure_write(void)
{
	return bandwidth(write_memory);
}

const struct column memory_columns[] = {
	{6, "L1 cache", "ns", measure_l1},          {6, "L2 cache", "ns", measure_l2},
	{6, "Main mem", "ns", measure_main},        {7, "file reread", "MB/s", measure_file},
	{7, "mmap reread", "MB/s", measure_mapped}, {7, "bcopy (libc)", "MB/s", measure_libc},
	{7, "bcopy (hand)", "MB/s", measure_hand},  {7, "mem read", "MB/s", measure_read},
	{7, "mem write", "MB/s", measure_write},    {0, NULL, NULL, NULL},
};
