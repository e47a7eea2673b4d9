/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that never run and workers that run nobody: to ask schedulers (lib/uthread/sched.h)
 * without an engine.
 */
#ifndef TEK_TESTS_FAKE_THREADS_H
#define TEK_TESTS_FAKE_THREADS_H

#include "support.h"

#include "uthread/engine.h"
#include "uthread/sched.h"
#include "uthread/spin.h"
#include "uthread/worker.h"

#define THREADS 1000u
#define NEVER UINT64_MAX

/* What the schedulers know of the engine. */
struct tek_worker tek_ut__workers[TEK_WORKERS_MAX];
struct tek_engine_options tek_ut__engine;

static struct tek_uthread threads[THREADS];

/* The same each time. */
static uint32_t random_state = 1;

static inline uint32_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return random_state;
}

/*
 * Threads that nobody knows, and a scheduler without any. One kernel thread, and no time that
 * counts.
 */
static inline void start(const struct tek_sched *sched, unsigned int workers)
{
	memset(threads, 0, sizeof(threads));
	memset(tek_ut__workers, 0, sizeof(tek_ut__workers));
	for (unsigned int i = 0; i < THREADS; i++)
		threads[i].id = i + 2;
	for (unsigned int i = 0; i < workers; i++)
		tek_ut__workers[i].number = i;
	tek_ut__engine.quantum_ns = 10 * 1000 * 1000;
	tek_ut__engine.promote_quanta = NEVER;
	atomic_store(&tek_ut__parallel_now, workers > 1);
	assert_int_equal(sched->start(workers), 0);
}

/* On worker 0, with nobody who runs there. */
static inline struct tek_uthread *take(const struct tek_sched *sched)
{
	return sched->next(&tek_ut__workers[0], NULL, TEK_READY_WOKEN);
}

static inline void give(const struct tek_sched *sched, struct tek_uthread *thread,
			enum tek_ready why)
{
	sched->ready(&tek_ut__workers[0], thread, why);
}

/* Threads `from` to `to`, new ones. */
static inline void create(const struct tek_sched *sched, unsigned int from, unsigned int to)
{
	for (unsigned int i = from; i <= to; i++)
		give(sched, &threads[i], TEK_READY_CREATED);
}

static inline int number_of(const struct tek_uthread *thread)
{
	return thread ? (int)(thread - threads) : -1;
}

/* The next ones are these, and then there is none. */
#define ASSERT_NEXT_ARE(sched, ...) \
	do { \
		const int expected[] = {__VA_ARGS__}; \
		for (size_t next_are = 0; next_are < sizeof(expected) / sizeof(int); next_are++) \
			assert_int_equal(number_of(take(sched)), expected[next_are]); \
		assert_int_equal(number_of(take(sched)), -1); \
	} while (0)

#endif
