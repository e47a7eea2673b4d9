/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Throughput of whatever allocator the process has (rtos-linux-scalability-2018, Fig. 6).
 *
 * Each thread allocates and frees for a given time, in one of these patterns:
 *   pair      a block of 64 bytes, freed at once
 *   own       blocks of 16 to 256 bytes; of 512 that the thread has, any one is replaced by a new
 *             one
 *   mixed     the same with sizes from 16 bytes to 32 KiB, the small ones more often
 *   exchange  each block is freed by the next thread: producer and consumer
 *
 * Its output is one line of JSON: pairs of malloc() and free() of all threads, and what one took a
 * thread.
 */
#include "../../response/clock.h"
#include "../../response/number.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS_MOST = 1024, BLOCKS = 512, RING = 256, BATCH = 64, PATIENCE = 256 };

struct ring {
	_Alignas(64) atomic_uint put;
	_Alignas(64) atomic_uint taken;
	_Alignas(64) void *blocks[RING];
};

struct worker {
	_Alignas(128) pthread_t thread;
	uint64_t random;
	uint64_t pairs;
	unsigned int idle;
	struct ring *to, *from;
	void *blocks[BLOCKS];
};

static struct worker workers[THREADS_MOST];
static struct ring rings[THREADS_MOST];
static unsigned int count;
static pthread_barrier_t start;
static atomic_bool stop;

/* xorshift64: G. Marsaglia, Xorshift RNGs, 2003. */
static inline uint32_t next(struct worker *worker)
{
	worker->random ^= worker->random << 13;
	worker->random ^= worker->random >> 7;
	worker->random ^= worker->random << 17;
	return (uint32_t)(worker->random >> 32);
}

/* A program writes to what it gets. */
static inline void *new_block(size_t bytes)
{
	char *block = malloc(bytes);

	if (!block) {
		fprintf(stderr, "allocator: no memory\n");
		exit(1);
	}
	*(volatile char *)block = 1;
	((volatile char *)block)[bytes - 1] = 1;
	return block;
}

static void pair(struct worker *worker)
{
	(void)worker;
	for (int i = 0; i < BATCH; i++)
		free(new_block(64));
}

static void own(struct worker *worker)
{
	for (int i = 0; i < BATCH; i++) {
		const uint32_t random = next(worker);
		void **block = &worker->blocks[random % BLOCKS];
		free(*block);
		*block = new_block(16 + (random >> 16) % 241);
	}
}

static void mixed(struct worker *worker)
{
	for (int i = 0; i < BATCH; i++) {
		const uint32_t random = next(worker);
		void **block = &worker->blocks[random % BLOCKS];
		free(*block);
		/* Half of what is left for each further power of two. */
		const unsigned int power = 4 +
					   (unsigned int)__builtin_ctz((random >> 20) | 1u << 10);
		*block = new_block(((size_t)1 << power) + (random >> 9) % ((size_t)1 << power));
	}
}

static void exchange(struct worker *worker)
{
	unsigned int put = atomic_load_explicit(&worker->to->put, memory_order_relaxed);
	const unsigned int room = RING - (put - atomic_load_explicit(&worker->to->taken,
								     memory_order_acquire));

	for (unsigned int more = room; more; more--, put++)
		worker->to->blocks[put % RING] = new_block(16 + next(worker) % 241);
	atomic_store_explicit(&worker->to->put, put, memory_order_release);

	unsigned int taken = atomic_load_explicit(&worker->from->taken, memory_order_relaxed);
	const unsigned int there = atomic_load_explicit(&worker->from->put, memory_order_acquire) -
				   taken;
	/* Nothing to do: while this thread polls, the other ones may get no CPU. */
	worker->idle = room || there ? 0 : worker->idle + 1;
	if (worker->idle % PATIENCE == PATIENCE - 1)
		sched_yield();
	worker->pairs += there;
	for (unsigned int more = there; more; more--, taken++)
		free(worker->from->blocks[taken % RING]);
	atomic_store_explicit(&worker->from->taken, taken, memory_order_release);
}

static const struct pattern {
	const char *name;
	void (*batch)(struct worker *worker);
	bool counts; /* the pairs itself */
} patterns[] = {
	{"pair", pair, false},
	{"own", own, false},
	{"mixed", mixed, false},
	{"exchange", exchange, true},
};
static const struct pattern *pattern;

static void *run(void *argument)
{
	struct worker *worker = argument;

	pthread_barrier_wait(&start);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		pattern->batch(worker);
		if (!pattern->counts)
			worker->pairs += BATCH;
	}
	return NULL;
}

static int usage(void)
{
	fprintf(stderr, "usage: allocator PATTERN THREADS MILLISECONDS\n"
			"PATTERN: pair, own, mixed, exchange; up to 1024 threads\n");
	return 2;
}

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 4 && i < sizeof(patterns) / sizeof(patterns[0]); i++)
		if (strcmp(argv[1], patterns[i].name) == 0)
			pattern = &patterns[i];
	if (!pattern)
		return usage();
	count = (unsigned int)number("threads", argv[2], 1, THREADS_MOST);
	const uint64_t milliseconds = number("milliseconds", argv[3], 1, 600000);
	pthread_barrier_init(&start, NULL, count + 1);
	for (unsigned int i = 0; i < count; i++) {
		struct worker *worker = &workers[i];
		worker->random = UINT64_C(0x9e3779b97f4a7c15) * (i + 1);
		worker->to = &rings[i];
		worker->from = &rings[(i + count - 1) % count];
		int error = pthread_create(&worker->thread, NULL, run, worker);
		if (error) {
			fprintf(stderr, "allocator: thread %u: %s\n", i + 1, strerror(error));
			return 1;
		}
	}
	pthread_barrier_wait(&start);
	const uint64_t begin = clock_ns();
	nanosleep(&(struct timespec){(time_t)(milliseconds / 1000),
				     (long)(milliseconds % 1000) * 1000000},
		  NULL);
	atomic_store(&stop, true);
	uint64_t pairs = 0;
	for (unsigned int i = 0; i < count; i++) {
		pthread_join(workers[i].thread, NULL);
		pairs += workers[i].pairs;
	}
	const double ns = (double)(clock_ns() - begin);
	printf("{\"program\": \"allocator\", \"pattern\": \"%s\", \"threads\": %u, "
	       "\"pairs_per_second\": %.0f, \"ns_per_pair\": %.2f}\n",
	       pattern->name, count, (double)pairs * 1e9 / ns,
	       pairs ? ns * count / (double)pairs : 0.0);
	return 0;
}
