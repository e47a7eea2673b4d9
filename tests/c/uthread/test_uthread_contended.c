/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A contended mutex, in all ways of locking and unlocking it: no wake-up is lost, and at most one
 * thread has it.
 */
#include "uthread_posix.h"

#include <errno.h>
#include <sched.h>

enum { THREADS = 12, MOST_MS = 400 };

static pthread_mutex_t mutex;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static long long counter;
static atomic_int inside, stop, wrong, started;

static void expect(bool condition)
{
	if (!condition)
		atomic_fetch_add(&wrong, 1);
}

static unsigned int next_random(unsigned int *state)
{
	*state = *state * 1103515245 + 12345;
	return *state >> 16;
}

static void compute(unsigned int loops)
{
	for (volatile unsigned int i = 0; i < loops; i++)
		;
}

/* Returns how often it has counted. */
static long long have_it(unsigned int random)
{
	expect(atomic_fetch_add_explicit(&inside, 1, memory_order_relaxed) == 0);
	long long seen = counter;
	compute(random % 200);
	if (random % 64 == 0)
		sched_yield();
	counter = seen + 1;
	atomic_fetch_sub_explicit(&inside, 1, memory_order_relaxed);
	return 1;
}

static bool ask_for_it(unsigned int random)
{
	const struct timespec until = in_us(CLOCK_REALTIME, random % 300);
	int error;

	switch (random % 8) {
	case 0:
		error = pthread_mutex_trylock(&mutex);
		expect(error == 0 || error == EBUSY);
		return error == 0;
	case 1:
	case 2:
		error = pthread_mutex_timedlock(&mutex, &until);
		expect(error == 0 || error == ETIMEDOUT);
		return error == 0;
	default:
		expect(pthread_mutex_lock(&mutex) == 0);
		return true;
	}
}

static void *count(void *argument)
{
	unsigned int state = (unsigned int)(uintptr_t)argument * 7919 + 1;
	long long times = 0;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		const unsigned int random = next_random(&state);
		if (!ask_for_it(random)) {
			sched_yield(); /* without preemption the holder would never run */
			continue;
		}
		times += have_it(random >> 3);
		if (random % 32 == 0) {
			const struct timespec until = in_us(CLOCK_REALTIME, 100);
			const int error = pthread_cond_timedwait(&cond, &mutex, &until);
			expect(error == 0 || error == ETIMEDOUT);
			times += have_it(random >> 5);
		}
		if (random % 16 == 0)
			expect((random % 32 ? pthread_cond_signal
					    : pthread_cond_broadcast)(&cond) == 0);
		expect(pthread_mutex_unlock(&mutex) == 0);
		if (random % 128 == 0)
			sched_yield();
	}
	return (void *)(uintptr_t)times;
}

static void run_and_count(int type)
{
	pthread_mutexattr_t attributes;
	pthread_t threads[THREADS];
	long long all = 0;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_settype(&attributes, type);
	assert_int_equal(pthread_mutex_init(&mutex, &attributes), 0);
	counter = 0;
	atomic_store(&stop, 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		threads[i] = start(count, (void *)i);
	nap(MOST_MS);
	atomic_store(&stop, 1);
	for (int i = 0; i < THREADS; i++)
		all += (long long)(uintptr_t)result_of(threads[i]);
	assert_int_equal(atomic_load(&wrong), 0);
	assert_true(counter == all);
	assert_int_equal(pthread_mutex_trylock(&mutex), 0);
	assert_int_equal(pthread_mutex_unlock(&mutex), 0);
	assert_int_equal(pthread_mutex_destroy(&mutex), 0);
	pthread_mutexattr_destroy(&attributes);
}

static void nobody_has_it_beside_another_one(void **state)
{
	(void)state;
	run_and_count(PTHREAD_MUTEX_NORMAL);
}

static void nor_one_that_checks_errors(void **state)
{
	(void)state;
	run_and_count(PTHREAD_MUTEX_ERRORCHECK);
}

static void nor_an_adaptive_one(void **state)
{
	(void)state;
	run_and_count(PTHREAD_MUTEX_ADAPTIVE_NP);
}

/* ---- threads that are cancelled ---- */

static void unlock(void *unused)
{
	(void)unused;
	expect(pthread_mutex_unlock(&mutex) == 0);
}

/* A cancelled waiter of the condition variable has the mutex again, and so must unlock it. */
static void *wait_until_cancelled(void *argument)
{
	expect(pthread_mutex_lock(&mutex) == 0);
	pthread_cleanup_push(unlock, NULL);
	atomic_fetch_add(&started, 1);
	for (;;) {
		compute(100);
		pthread_cond_wait(&cond, &mutex);
	}
	pthread_cleanup_pop(1);
	return argument;
}

static void *count_between(void *argument)
{
	uintptr_t times = 0;

	(void)argument;
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		expect(pthread_mutex_lock(&mutex) == 0);
		times += (uintptr_t)have_it((unsigned int)times);
		if (times % 8 == 0)
			expect(pthread_cond_broadcast(&cond) == 0);
		expect(pthread_mutex_unlock(&mutex) == 0);
		if (times % 16 == 0)
			sched_yield();
	}
	return (void *)times;
}

static void a_thread_that_is_cancelled_takes_no_wake_up_along(void **state)
{
	enum { ROUNDS = 20, EACH = 6 };
	pthread_t counting[4], waiting[EACH];
	long long all = 0;

	(void)state;
	assert_int_equal(pthread_mutex_init(&mutex, NULL), 0);
	counter = 0;
	atomic_store(&stop, 0);
	for (int i = 0; i < 4; i++)
		counting[i] = start(count_between, NULL);
	for (int round = 0; round < ROUNDS; round++) {
		atomic_store(&started, 0);
		for (int i = 0; i < EACH; i++)
			waiting[i] = start(wait_until_cancelled, NULL);
		assert_true(becomes(&started, EACH));
		for (int i = 0; i < EACH; i++)
			assert_int_equal(pthread_cancel(waiting[i]), 0);
		for (int i = 0; i < EACH; i++)
			assert_ptr_equal(result_of(waiting[i]), PTHREAD_CANCELED);
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < 4; i++)
		all += (long long)(uintptr_t)result_of(counting[i]);
	assert_int_equal(atomic_load(&wrong), 0);
	assert_true(counter == all);
	assert_int_equal(pthread_mutex_destroy(&mutex), 0);
}

/* ---- fairness ---- */

static atomic_int iterations;

/* Unlocks it and locks it again at once: waiters get it all the same. */
static void *hold_it_nearly_always(void *argument)
{
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		expect(pthread_mutex_lock(&mutex) == 0);
		compute(2000);
		expect(pthread_mutex_unlock(&mutex) == 0);
	}
	return argument;
}

static void *alternate(void *argument)
{
	for (int i = 0; i < 20; i++) {
		expect(pthread_mutex_lock(&mutex) == 0);
		atomic_fetch_add(&iterations, 1);
		expect(pthread_mutex_unlock(&mutex) == 0);
	}
	return argument;
}

static void a_thread_that_waits_gets_it_from_one_that_locks_it_all_the_time(void **state)
{
	pthread_t greedy, rest[5];

	(void)state;
	NEEDS_PREEMPTION();
	assert_int_equal(pthread_mutex_init(&mutex, NULL), 0);
	atomic_store(&stop, 0);
	greedy = start(hold_it_nearly_always, NULL);
	for (int i = 0; i < 5; i++)
		rest[i] = start(alternate, NULL);
	for (int i = 0; i < 5; i++)
		result_of(rest[i]);
	atomic_store(&stop, 1);
	result_of(greedy);
	assert_int_equal(atomic_load(&iterations), 100);
	assert_int_equal(atomic_load(&wrong), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_has_it_beside_another_one),
		cmocka_unit_test(nor_one_that_checks_errors),
		cmocka_unit_test(nor_an_adaptive_one),
		cmocka_unit_test(a_thread_that_is_cancelled_takes_no_wake_up_along),
		cmocka_unit_test(a_thread_that_waits_gets_it_from_one_that_locks_it_all_the_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
