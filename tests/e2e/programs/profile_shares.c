/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads with known shares of CPU time.  profile_shares THREADS MS prints, for each thread, the
 * CPU time in ns of its work, its calls for files and its allocations, each of about MS ms.  All
 * threads wait for `gate` before the first one gets it, and its holder works meanwhile.
 *
 * The number of rounds of each part is measured beforehand: on a busy machine the kernel takes the
 * CPU away when the clock of CPU time is read, so that is read seldom.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define THREADS 8
#define BLOCKS 256
#define PAGE 65536

pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t start;
static _Atomic int before_gate[THREADS]; /* ID of a thread whose next call locks the gate */
static long part_ns;
static long used[THREADS][3];
static volatile unsigned long sink;

static long cpu_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000 + now.tv_nsec;
}

static void work(void)
{
	for (unsigned long i = 0; i < 200000; i++)
		sink += i * i;
}

static void files(int fd, const char *page)
{
	for (int i = 0; i < 20; i++)
		if (pwrite(fd, page, PAGE, 0) != PAGE)
			abort();
}

static void allocations(void)
{
	static __thread void *blocks[BLOCKS];
	for (int round = 0; round < 40; round++) {
		for (int i = 0; i < BLOCKS; i++)
			blocks[i] = malloc(2000 + (size_t)i * 40);
		for (int i = 0; i < BLOCKS; i++)
			free(blocks[(i * 97) % BLOCKS]);
	}
}

static __thread int fd; /* each has its own: a file has a lock */
static const char *page;
static int rounds[3];

static void do_part(int part)
{
	if (part == 0)
		work();
	else if (part == 1)
		files(fd, page);
	else
		allocations();
}

/* Measures how many rounds of each part take a fortieth of its time. */
static void find_rounds(void)
{
	for (int part = 0; part < 3; part++) {
		long began = cpu_ns(), count = 0;
		for (; cpu_ns() - began < 10000000; count++)
			do_part(part);
		rounds[part] = (int)(part_ns / 40 * count / (cpu_ns() - began)) + 1;
	}
}

static void do_for(long *used_ns, int part, int fortieths)
{
	long began = cpu_ns();

	for (int i = 0; i < rounds[part] * fortieths; i++)
		do_part(part);
	*used_ns += cpu_ns() - began;
}

static void *run(void *number)
{
	long *mine = used[(long)number];

	fd = memfd_create("shares", 0);
	pthread_barrier_wait(&start);
	before_gate[(long)number] = gettid();
	pthread_mutex_lock(&gate);
	do_for(&mine[0], 0, 10);
	pthread_mutex_unlock(&gate);
	for (int iteration = 0; iteration < 10; iteration++)
		for (int part = 0; part < 3; part++)
			do_for(&mine[part], part, 4);
	return NULL;
}

static int is_asleep(int tid)
{
	char name[64], state = 0;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/self/task/%d/stat", tid);
	file = fopen(name, "re");
	if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		abort();
	fclose(file);
	return state == 'S';
}

/* On a busy machine a holder could be through before another thread comes. */
static void open_gate_for(int count)
{
	for (int i = 0; i < count; i++)
		while (!before_gate[i] || !is_asleep(before_gate[i]))
			usleep(1000);
	pthread_mutex_unlock(&gate);
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 2;
	pthread_t threads[THREADS];

	part_ns = (argc > 2 ? atol(argv[2]) : 100) * 1000000;
	fd = memfd_create("shares", 0);
	page = calloc(1, PAGE);
	find_rounds();
	pthread_barrier_init(&start, NULL, (unsigned)count);
	pthread_mutex_lock(&gate);
	for (long i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, run, (void *)i);
	open_gate_for(count);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < count; i++)
		printf("%ld %ld %ld\n", used[i][0], used[i][1], used[i][2]);
	return 0;
}
