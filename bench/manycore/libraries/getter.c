/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Throughput of an allocator that keeps a cache for each thread, by how it identifies the calling
 * thread (rtos-linux-scalability-2018, 3.1.6 and Fig. 7):
 *   kernel    gettid(2), a system call each time
 *   checked   tek_self_checked(): a call, and it makes sure of what it knows
 *   fast      tek_self_fast(): one load
 *   register  tek_self_register(): the processor's thread pointer
 * The caches are found by a hash of the id, as in Hoard, whose heaps the paper had; all threads
 * have the same code but for the getter.  One line of JSON for each getter, measured alternately in
 * one run.
 */
#include "../../response/clock.h"
#include "../../response/median.h"
#include "../../response/number.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <tek/tek.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MOST = 1024, CACHES = 4096, CLASSES = 16, BATCH = 64, RETAINED = 64, ROUNDS = 5 };

struct block {
	struct block *next;
};

/* Of one thread: free blocks by size. The owner's id, to see that two do not share one. */
struct cache {
	_Alignas(128) atomic_uintptr_t owner;
	struct block *free[CLASSES];
};
static struct cache caches[CACHES];

/* Linear probing; no entry is removed. */
static inline struct cache *cache_of(uintptr_t id)
{
	for (size_t at = id * UINT64_C(0x9e3779b97f4a7c15) >> 52;; at = (at + 1) % CACHES) {
		uintptr_t owner = atomic_load_explicit(&caches[at].owner, memory_order_relaxed);
		if (owner == id)
			return &caches[at];
		if (owner == 0 && atomic_compare_exchange_strong(&caches[at].owner, &owner, id))
			return &caches[at];
	}
}

static inline void *take(struct cache *cache, unsigned int class)
{
	struct block *block = cache->free[class];

	if (!block)
		return malloc((class + 1) * 16u);
	cache->free[class] = block->next;
	return block;
}

static inline void give(struct cache *cache, unsigned int class, void *memory)
{
	struct block *block = memory;

	block->next = cache->free[class];
	cache->free[class] = block;
}

struct worker {
	_Alignas(128) pthread_t thread;
	uint32_t random;
	uint64_t pairs;
};
static struct worker workers[THREADS_MOST];
static atomic_bool stop;
static pthread_barrier_t start;

static inline uintptr_t by_kernel(void)
{
	return (uintptr_t)syscall(SYS_gettid);
}

static inline uintptr_t by_check(void)
{
	pid_t tid = 0;
	tek_self_checked(&tid);
	return (uintptr_t)tid;
}

static inline uintptr_t by_memory(void)
{
	return (uintptr_t)tek_self_fast();
}

static inline uintptr_t by_register(void)
{
	return tek_self_register();
}

/* One function a getter, so that each is inlined into the allocator as it would be. */
#define BATCH_BY(getter) \
	static void batch_##getter(struct worker *worker) \
	{ \
		void *retained[RETAINED] = {NULL}; \
		unsigned char classes[RETAINED]; \
		for (int i = 0; i < BATCH * RETAINED; i++) { \
			worker->random = worker->random * 1664525u + 1013904223u; \
			const unsigned int at = worker->random >> 26; \
			const unsigned int class = worker->random >> 16 & (CLASSES - 1); \
			if (retained[at]) \
				give(cache_of(getter()), classes[at], retained[at]); \
			retained[at] = take(cache_of(getter()), class); \
			classes[at] = (unsigned char)class; \
			*(volatile char *)retained[at] = 1; \
		} \
		for (int i = 0; i < RETAINED; i++) \
			if (retained[i]) \
				give(cache_of(getter()), classes[i], retained[i]); \
		worker->pairs += BATCH * RETAINED; \
	}
BATCH_BY(by_kernel)
BATCH_BY(by_check)
BATCH_BY(by_memory)
BATCH_BY(by_register)

static const struct getter {
	const char *name;
	void (*batch)(struct worker *worker);
} getters[] = {
	{"kernel", batch_by_kernel},
	{"checked", batch_by_check},
	{"fast", batch_by_memory},
	{"register", batch_by_register},
};
enum { GETTERS = sizeof(getters) / sizeof(getters[0]) };
static const struct getter *getter;

static void *run(void *argument)
{
	struct worker *worker = argument;

	(void)tek_gettid(); /* from now on it is known */
	pthread_barrier_wait(&start);
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		getter->batch(worker);
	return NULL;
}

/* Pairs a second of all threads; below 0: no thread. */
static double measure(unsigned int threads, unsigned int milliseconds)
{
	uint64_t pairs = 0;

	/* The threads of the round before have gone, and their caches with them. */
	memset(caches, 0, sizeof(caches));
	memset(workers, 0, sizeof(workers));
	atomic_store(&stop, false);
	pthread_barrier_init(&start, NULL, threads + 1);
	for (unsigned int i = 0; i < threads; i++) {
		workers[i].random = i * 2654435761u + 1;
		int error = pthread_create(&workers[i].thread, NULL, run, &workers[i]);
		if (error) {
			fprintf(stderr, "getter: thread %u: %s\n", i + 1, strerror(error));
			exit(1);
		}
	}
	pthread_barrier_wait(&start);
	const uint64_t begin = clock_ns();
	nanosleep(&(struct timespec){milliseconds / 1000, (long)(milliseconds % 1000) * 1000000},
		  NULL);
	atomic_store(&stop, true);
	for (unsigned int i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		pairs += workers[i].pairs;
	}
	pthread_barrier_destroy(&start);
	return (double)pairs * 1e9 / (double)(clock_ns() - begin);
}

int main(int argc, char **argv)
{
	double rounds[GETTERS][ROUNDS];

	if (argc != 3) {
		fprintf(stderr, "usage: getter THREADS MILLISECONDS\n");
		return 2;
	}
	const unsigned int threads = (unsigned int)number("threads", argv[1], 1, THREADS_MOST);
	const unsigned int milliseconds = (unsigned int)number("milliseconds", argv[2], 1, 600000);
	for (int round = 0; round < ROUNDS; round++)
		for (int i = 0; i < GETTERS; i++) {
			getter = &getters[i];
			rounds[i][round] = measure(threads, milliseconds);
		}
	for (int i = 0; i < GETTERS; i++) {
		const double middle = median(rounds[i], ROUNDS);
		printf("{\"program\": \"getter\", \"getter\": \"%s\", \"threads\": %u, "
		       "\"pairs_per_second\": %.0f, \"least\": %.0f, \"most\": %.0f}\n",
		       getters[i].name, threads, middle, rounds[i][0], rounds[i][ROUNDS - 1]);
	}
	return 0;
}
