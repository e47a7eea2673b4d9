/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * million - very many live threads: what each takes of time and of memory while all of them wait.
 * Built once for each library (on/on.h).
 *
 * Usage: PROGRAM --threads N [--preempt 1].  With --preempt each runs until it was taken off its
 * CPU once, in the middle of what it does, before it waits; only user-level threads on one worker.
 * Prints one line of JSON.
 */
#include "on/on.h"

#include "../response/clock.h"
#include "../response/number.h"

#include <err.h>
#include <getopt.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIMIT_S 500

static on_mutex mutex;
static on_cond all_wait, go_on;
static volatile uint64_t threads = 1000; /* fewer, if no more could be created */
static uint64_t waiting;
static bool over, preempt;
static _Atomic uint64_t begun; /* so many have: a thread can be taken off its CPU while it counts */

/* Until another thread has begun to run: then this one was taken off the worker. */
static void run_until_preempted(void)
{
	uint64_t own = atomic_fetch_add(&begun, 1) + 1;

	while (atomic_load_explicit(&begun, memory_order_relaxed) == own && own < threads)
		;
}

static void *live(void *unused)
{
	if (preempt)
		run_until_preempted();
	on_mutex_lock(&mutex);
	if (++waiting == threads)
		on_cond_signal(&all_wait);
	while (!over)
		on_cond_wait(&go_on, &mutex);
	on_mutex_unlock(&mutex);
	return unused;
}

/* Of the process, in bytes: what is in memory, and the kernel's page tables for it. */
struct memory {
	double resident, page_tables;
};

static double kib_of(const char *line, const char *name)
{
	size_t length = strlen(name);
	return strncmp(line, name, length) ? 0 : 1024.0 * strtod(line + length, NULL);
}

static struct memory memory_now(void)
{
	struct memory memory = {0};
	char line[128];
	FILE *file = fopen("/proc/self/status", "re");

	if (!file)
		err(EXIT_FAILURE, "/proc/self/status");
	while (fgets(line, sizeof(line), file)) {
		memory.resident += kib_of(line, "VmRSS:");
		memory.page_tables += kib_of(line, "VmPTE:");
	}
	fclose(file);
	return memory;
}

/* Returns how many there are. */
static uint64_t create(on_thread *all)
{
	for (uint64_t i = 0; i < threads; i++)
		if (on_create(&all[i], live, NULL))
			return i;
	return threads;
}

static void read_arguments(int argc, char **argv)
{
	static const struct option known[] = {
		{"threads", required_argument, NULL, 't'},
		{"preempt", required_argument, NULL, 'p'},
		{0},
	};
	int found;

	while ((found = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (found == 't')
			threads = number("threads", optarg, 1, 10000000);
		else if (found == 'p')
			preempt = number("preempt", optarg, 0, 1);
		else
			exit(2);
	}
	if (optind < argc)
		errx(2, "usage: %s --threads N [--preempt 1]", argv[0]);
}

int main(int argc, char **argv)
{
	read_arguments(argc, argv);
	alarm(LIMIT_S); /* it must end by itself, even if no process waits for it */
	on_start();
	on_mutex_init(&mutex);
	on_cond_init(&all_wait);
	on_cond_init(&go_on);
	on_thread *all = malloc(threads * sizeof(*all));
	if (!all)
		err(EXIT_FAILURE, "no memory");
	memset(all, 1, threads * sizeof(*all)); /* the handles are not the threads' memory */

	struct memory before = memory_now();
	uint64_t begin = clock_ns();
	uint64_t created = create(all);
	on_mutex_lock(&mutex);
	threads = created;
	while (waiting < threads)
		on_cond_wait(&all_wait, &mutex);
	uint64_t wait = clock_ns();
	struct memory with = memory_now();
	uint64_t wake = clock_ns();
	over = true;
	on_cond_broadcast(&go_on);
	on_mutex_unlock(&mutex);
	for (uint64_t i = 0; i < created; i++)
		on_join(&all[i]);
	uint64_t end = clock_ns();
	free(all);

	double count = created ? (double)created : 1;
	printf("{\"on\":\"%s\",\"threads\":%lu,\"begin_ns\":%.1f,\"end_ns\":%.1f,\"bytes\":%.1f,"
	       "\"page_table_bytes\":%.1f}\n",
	       ON_NAME, (unsigned long)created, (double)(wait - begin) / count,
	       (double)(end - wake) / count, (with.resident - before.resident) / count,
	       (with.page_tables - before.page_tables) / count);
	return EXIT_SUCCESS;
}
