/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Mutexes at a fork, and in the child. */
#include "patience.h"
#include "sync_waiting.h"

#include <sys/wait.h>

static void *lock_and_unlock(void *object)
{
	atomic_fetch_add(&waiting, 1);
	pthread_mutex_lock(object);
	pthread_mutex_unlock(object);
	return NULL;
}

/* The threads of the parent stand in its queue. */
static void a_mutex_that_threads_wait_for_is_free_again_in_a_child(void **state)
{
	pthread_t threads[3];
	int status;

	(void)state;
	pthread_mutex_lock(&mutex);
	for (int i = 0; i < 3; i++)
		threads[i] = start(lock_and_unlock, &mutex);
	assert_true(becomes(&waiting, 3));
	nap(20);
	pid_t child = fork();
	if (child == 0) {
		limit_to(30);
		pthread_mutex_unlock(&mutex);
		pthread_mutex_lock(&mutex);
		pthread_t another = start(lock_and_unlock, &mutex);
		pthread_mutex_unlock(&mutex);
		pthread_join(another, NULL);
		_exit(0);
	}
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < 3; i++)
		result_of(threads[i]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static pthread_mutex_t of_a_library = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool over;

/* Threads begin to wait for it before the fork. */
static void lock_of_library(void)
{
	pthread_mutex_lock(&of_a_library);
	nap(1);
}

static void unlock_of_library(void)
{
	pthread_mutex_unlock(&of_a_library);
}

/*
 * Registered before any constructor, so the child's handler runs before those of all libraries, as
 * that of a library does.
 */
static void handle_forks(void)
{
	pthread_atfork(lock_of_library, unlock_of_library, unlock_of_library);
}
__attribute__((used,
	       section(".preinit_array"))) static void (*const early_handlers)(void) = handle_forks;

static void *use_until_over(void *object)
{
	atomic_fetch_add(&waiting, 1);
	while (!atomic_load(&over)) {
		pthread_mutex_lock(object);
		pthread_mutex_unlock(object);
		sched_yield();
	}
	return NULL;
}

static void start_three(pthread_t *threads, void *(*routine)(void *), void *argument)
{
	atomic_store(&over, false);
	for (int i = 0; i < 3; i++)
		threads[i] = start(routine, argument);
}

static void join_three(pthread_t *threads)
{
	atomic_store(&over, true);
	for (int i = 0; i < 3; i++)
		result_of(threads[i]);
}

static void *use_often(void *object)
{
	for (int i = 0; i < 500; i++) {
		pthread_mutex_lock(object);
		pthread_mutex_unlock(object);
	}
	return NULL;
}

static int status_of(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

/* prepare: lock; parent, child: unlock. */
static void a_library_may_lock_in_its_fork_handlers(void **state)
{
	pthread_t threads[3];

	(void)state;
	start_three(threads, use_until_over, &of_a_library);
	assert_true(becomes(&waiting, 3));
	for (int i = 0; i < 20; i++) {
		pid_t child = fork();
		if (child == 0) {
			limit_to(30);
			_exit(pthread_mutex_trylock(&of_a_library));
		}
		assert_int_equal(status_of(child), 0);
	}
	join_three(threads);
}

/* Threads that waited for it in the parent are in its queue still. */
static void one_that_is_free_at_a_fork_is_of_use_to_several_threads_of_the_child(void **state)
{
	pthread_t threads[3];

	(void)state;
	start_three(threads, use_until_over, &mutex);
	assert_true(becomes(&waiting, 3));
	for (int i = 0; i < 50; i++) {
		pthread_mutex_lock(&mutex);
		nap(1);
		pthread_mutex_unlock(&mutex);
		pid_t child = fork();
		if (child == 0) {
			pthread_t rest[3];
			if (pthread_mutex_trylock(&mutex) != 0)
				_exit(0); /* it was not */
			pthread_mutex_unlock(&mutex);
			limit_to(30);
			start_three(rest, use_often, &mutex);
			join_three(rest);
			_exit(0);
		}
		assert_int_equal(status_of(child), 0);
	}
	join_three(threads);
}

static void *time_out_then_get_it(void *object)
{
	const struct timespec soon = in_ms(CLOCK_REALTIME, 5), late = in_ms(CLOCK_REALTIME, 20000);

	atomic_fetch_add(&woken, pthread_mutex_timedlock(object, &soon) == ETIMEDOUT);
	atomic_fetch_add(&waiting, 1);
	if (pthread_mutex_timedlock(object, &late) == 0) {
		atomic_fetch_add(&woken, 1);
		pthread_mutex_unlock(object);
	}
	return NULL;
}

static void threads_of_a_child_wait_until_its_first_unlocks(void **state)
{
	pthread_t threads[3];

	(void)state;
	pthread_mutex_lock(&mutex);
	start_three(threads, lock_and_unlock, &mutex);
	assert_true(becomes(&waiting, 3));
	nap(20);
	pid_t child = fork();
	if (child == 0) {
		pthread_t rest[3];
		limit_to(30);
		atomic_store(&waiting, 0);
		start_three(rest, time_out_then_get_it, &mutex);
		for (int i = 0; i < 10000 && atomic_load(&waiting) < 3; i++)
			nap(1);
		nap(5);
		pthread_mutex_unlock(&mutex);
		join_three(rest);
		_exit(atomic_load(&woken) == 6 ? 0 : 1);
	}
	pthread_mutex_unlock(&mutex);
	join_three(threads);
	assert_int_equal(status_of(child), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_mutex_that_threads_wait_for_is_free_again_in_a_child,
				       reset),
		cmocka_unit_test_setup(a_library_may_lock_in_its_fork_handlers, reset),
		cmocka_unit_test_setup(
			one_that_is_free_at_a_fork_is_of_use_to_several_threads_of_the_child,
			reset),
		cmocka_unit_test_setup(threads_of_a_child_wait_until_its_first_unlocks, reset),
	};
	start_watchdog();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
