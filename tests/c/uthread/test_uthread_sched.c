/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The common behaviour of all schedulers, in sequence and on several kernel threads at once. */
#include "fake_threads.h"

#include "patience.h"
#include "rounds.h"

#include <stdatomic.h>

#define WORKERS 3u

/* Each scheduler, RtFIFO with each of its locks. */
static const struct variant {
	const char *name;
	int lock;
} variants[] = {{"fifo", TEK_LOCK_WORKER},
		{"fifo", TEK_LOCK_OBJECT},
#define VARIANT(kind, text, about) {text, TEK_LOCK_GIANT},
		TEK_SCHEDULERS(VARIANT)};
#define VARIANTS (sizeof(variants) / sizeof(variants[0]))

static const struct tek_sched *start_variant(const struct variant *variant, unsigned int workers)
{
	const struct tek_sched *sched = tek_ut__sched_find(variant->name);

	assert_non_null(sched);
	tek_ut__engine.lock = variant->lock;
	start(sched, workers);
	return sched;
}

static void each_scheduler_is_found_by_its_name(void **state)
{
	(void)state;
	unsigned int number = 0;
#define ASSERT_FOUND(kind, text, about) \
	assert_ptr_equal(tek_ut__sched_at(number), &tek_ut__sched_##kind); \
	assert_string_equal(tek_ut__sched_at(number++)->name, text); \
	assert_ptr_equal(tek_ut__sched_find(text), &tek_ut__sched_##kind);
	TEK_SCHEDULERS(ASSERT_FOUND)
	assert_null(tek_ut__sched_at(number));
	assert_null(tek_ut__sched_find("cfs"));
	assert_null(tek_ut__sched_find(""));
}

static void nobody_comes_out_of_a_scheduler_that_has_nobody(void **state)
{
	(void)state;
	for (unsigned int v = 0; v < VARIANTS; v++) {
		const struct tek_sched *sched = start_variant(&variants[v], WORKERS);
		struct tek_uthread running = {.id = 1};
		for (unsigned int i = 0; i < WORKERS; i++) {
			struct tek_worker *worker = &tek_ut__workers[i];
			assert_false(sched->any(worker));
			assert_null(sched->next(worker, NULL, TEK_READY_WOKEN));
			assert_null(sched->next(worker, &running, TEK_READY_YIELDED));
			assert_null(sched->next(worker, &running, TEK_READY_PREEMPTED));
		}
	}
}

static void a_scheduler_that_starts_again_has_nobody(void **state)
{
	(void)state;
	for (unsigned int v = 0; v < VARIANTS; v++) {
		const struct tek_sched *sched = start_variant(&variants[v], WORKERS);
		for (unsigned int i = 0; i < 100; i++)
			sched->ready(&tek_ut__workers[i % WORKERS], &threads[i], TEK_READY_CREATED);
		assert_int_equal(sched->start(1), 0);
		assert_false(sched->any(&tek_ut__workers[0]));
		assert_null(take(sched));
		/* As in the child of fork(): a thread of a worker that exists no more. */
		struct tek_uthread *forked = &threads[200];
		forked->sched.assigned = &tek_ut__workers[WORKERS - 1];
		give(sched, forked, TEK_READY_WOKEN);
		ASSERT_NEXT_ARE(sched, 200);
	}
}

/* Anything that may happen, at random; what is ready is counted beside. */
static void churn(const struct tek_sched *sched, unsigned int workers, int steps)
{
	static bool is_ready[THREADS], is_known[THREADS];
	unsigned int ready = 0;

	memset(is_ready, 0, sizeof(is_ready));
	memset(is_known, 0, sizeof(is_known));
	for (int i = 0; i < steps; i++) {
		struct tek_worker *worker = &tek_ut__workers[next_random() % workers];
		unsigned int number = next_random() % THREADS;
		struct tek_uthread *thread = &threads[number];
		if (next_random() % 20 == 0)
			worker->ticks++;
		if (next_random() % 2 && !is_ready[number]) {
			enum tek_ready why = next_random() % 3 + TEK_READY_WOKEN;
			if (!is_known[number])
				why = TEK_READY_CREATED;
			thread->sched.priority = (signed char)(next_random() % 100);
			sched->ready(next_random() % 4 ? worker : NULL, thread, why);
			is_ready[number] = is_known[number] = true;
			ready++;
		} else if (sched->any(worker)) {
			struct tek_uthread *next = sched->next(worker, NULL, TEK_READY_WOKEN);
			assert_non_null(next);
			assert_true(is_ready[number_of(next)]);
			is_ready[number_of(next)] = false;
			ready--;
			if (next_random() % 2)
				sched->tick(worker, next);
		} else {
			assert_null(sched->next(worker, NULL, TEK_READY_WOKEN));
		}
	}
	for (unsigned int i = 0; i < workers; i++) {
		struct tek_uthread *next;
		while ((next = sched->next(&tek_ut__workers[i], NULL, TEK_READY_WOKEN))) {
			assert_true(is_ready[number_of(next)]);
			is_ready[number_of(next)] = false;
			ready--;
		}
		assert_false(sched->any(&tek_ut__workers[i]));
	}
	assert_int_equal(ready, 0);
}

static void each_ready_thread_comes_out_once(void **state)
{
	(void)state;
	for (unsigned int v = 0; v < VARIANTS; v++) {
		for (unsigned int workers = 1; workers <= WORKERS; workers += WORKERS - 1) {
			const struct tek_sched *sched = start_variant(&variants[v], workers);
			tek_ut__engine.quantum_ns = 1000;
			tek_ut__engine.promote_quanta = 10;
			churn(sched, workers, rounds(200000));
		}
	}
}

/* One thread in 100 computes beside 99 that wake each other: the turns until it runs. */
static void a_thread_that_is_ready_runs_beside_other_ones_that_wake_each_other(void **state)
{
	(void)state;
	static const char *const fair[] = {"rr", "mlfq", "steal"};
	for (unsigned int f = 0; f < sizeof(fair) / sizeof(fair[0]); f++) {
		for (enum tek_ready why = TEK_READY_CREATED; why <= TEK_READY_PREEMPTED; why++) {
			const struct tek_sched *sched = tek_ut__sched_find(fair[f]);
			start(sched, 1);
			tek_ut__engine.promote_quanta = 1;
			create(sched, 1, 99);
			give(sched, &threads[0], why);
			unsigned int iterations = 0;
			struct tek_uthread *thread;
			while ((thread = take(sched)) != &threads[0]) {
				assert_non_null(thread);
				give(sched, thread, TEK_READY_WOKEN);
				assert_true(++iterations < 100 * 128);
			}
		}
	}
}

/* A thread that moves between workers, which are kernel threads. */
struct traveller {
	struct tek_uthread thread;
	atomic_bool out;   /* a worker has it */
	unsigned int left; /* the times that it must still be taken */
};

static struct {
	const struct tek_sched *sched;
	struct traveller travellers[200];
	atomic_uint arrived;
	atomic_uint errors;
	bool reprioritise;
} journey;

#define TRAVELLERS (sizeof(journey.travellers) / sizeof(journey.travellers[0]))

static uint32_t random_of(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 16;
}

static void send_on(struct tek_worker *worker, struct traveller *traveller, uint32_t *seed)
{
	enum tek_ready why = random_of(seed) % 3 + TEK_READY_WOKEN;
	bool outside = why == TEK_READY_WOKEN && random_of(seed) % 2;

	if (random_of(seed) % 3 == 0)
		journey.sched->tick(worker, &traveller->thread);
	if (--traveller->left == 0) {
		atomic_fetch_add(&journey.arrived, 1);
		return;
	}
	atomic_store_explicit(&traveller->out, false, memory_order_relaxed);
	journey.sched->ready(outside ? NULL : worker, &traveller->thread, why);
}

static void *worker_main(void *argument)
{
	struct tek_worker *worker = argument;
	uint32_t seed = worker->number + 1;

	while (atomic_load(&journey.arrived) < TRAVELLERS && !atomic_load(&journey.errors)) {
		struct traveller *traveller = (struct traveller *)journey.sched->next(
			worker, NULL, TEK_READY_WOKEN);
		if (random_of(&seed) % 8 == 0)
			worker->ticks++;
		if (journey.reprioritise && random_of(&seed) % 2) {
			struct traveller *other =
				&journey.travellers[random_of(&seed) % TRAVELLERS];
			journey.sched->reprioritise(&other->thread,
						    (signed char)(random_of(&seed) % 100));
		}
		if (!traveller) {
			sched_yield();
			continue;
		}
		if (atomic_exchange_explicit(&traveller->out, true, memory_order_relaxed))
			atomic_fetch_add(&journey.errors, 1);
		else
			send_on(worker, traveller, &seed);
	}
	return NULL;
}

static void travel(const struct variant *variant, bool reprioritise)
{
	pthread_t handles[WORKERS];

	memset(&journey, 0, sizeof(journey));
	journey.sched = start_variant(variant, WORKERS);
	journey.reprioritise = reprioritise;
	tek_ut__engine.quantum_ns = 1000;
	tek_ut__engine.promote_quanta = 10;
	for (unsigned int i = 0; i < TRAVELLERS; i++) {
		struct traveller *traveller = &journey.travellers[i];
		traveller->left = (unsigned int)rounds(1000);
		traveller->thread.id = i + 2;
		traveller->thread.sched.priority = (signed char)(i % 100);
		journey.sched->ready(NULL, &traveller->thread, TEK_READY_CREATED);
	}
	for (unsigned int i = 0; i < WORKERS; i++)
		assert_int_equal(
			pthread_create(&handles[i], NULL, worker_main, &tek_ut__workers[i]), 0);
	for (unsigned int i = 0; i < WORKERS; i++)
		pthread_join(handles[i], NULL);
	assert_int_equal(atomic_load(&journey.errors), 0);
	assert_int_equal(atomic_load(&journey.arrived), TRAVELLERS);
	for (unsigned int i = 0; i < WORKERS; i++)
		assert_false(journey.sched->any(&tek_ut__workers[i]));
}

static void nobody_is_lost_or_doubled_by_workers_at_once(void **state)
{
	(void)state;
	for (unsigned int v = 0; v < VARIANTS; v++)
		travel(&variants[v], false);
}

static void nobody_is_lost_or_doubled_while_priorities_change(void **state)
{
	(void)state;
	for (unsigned int v = 0; v < VARIANTS; v++) {
		if (tek_ut__sched_find(variants[v].name)->reprioritise)
			travel(&variants[v], true);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_scheduler_is_found_by_its_name),
		cmocka_unit_test(nobody_comes_out_of_a_scheduler_that_has_nobody),
		cmocka_unit_test(a_scheduler_that_starts_again_has_nobody),
		cmocka_unit_test(each_ready_thread_comes_out_once),
		cmocka_unit_test(
			a_thread_that_is_ready_runs_beside_other_ones_that_wake_each_other),
		cmocka_unit_test(nobody_is_lost_or_doubled_by_workers_at_once),
		cmocka_unit_test(nobody_is_lost_or_doubled_while_priorities_change),
	};
	limit_to(100);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
