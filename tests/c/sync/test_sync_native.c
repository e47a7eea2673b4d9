/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* tek/lock.h, as a program uses it. */
#include "patience.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <tek/lock.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREADS = 4, TIMES = 2000 };

static tek_lock_t lock;
static long counter;
static atomic_int waiting;

static void *count(void *unused)
{
	(void)unused;
	for (int i = 0; i < TIMES; i++) {
		tek_lock_lock(&lock);
		counter++;
		tek_lock_unlock(&lock);
	}
	return NULL;
}

static void count_together(void)
{
	pthread_t threads[THREADS];

	counter = 0;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(counter, THREADS * TIMES);
}

static void a_lock_of_zeros_is_free_and_chooses_itself(void **state)
{
	static tek_lock_t zeros, initialised = TEK_LOCK_INIT;

	(void)state;
	assert_string_equal(tek_lock_kind_of(&zeros), "auto");
	assert_string_equal(tek_lock_kind_of(&initialised), "auto");
	assert_int_equal(tek_lock_trylock(&zeros), 0);
	assert_int_equal(tek_lock_trylock(&zeros), EBUSY);
	tek_lock_unlock(&zeros);
	assert_int_equal(tek_lock_trylock(&zeros), 0);
	tek_lock_unlock(&zeros);
}

static void a_lock_is_of_the_kind_that_was_asked_for(void **state)
{
	(void)state;
	assert_int_equal(tek_lock_init(&lock, "k42"), 0);
	assert_string_equal(tek_lock_kind_of(&lock), "k42");
	assert_int_equal(tek_lock_init(&lock, "none"), EINVAL);
	assert_string_equal(tek_lock_kind_of(&lock), "k42");
	assert_int_equal(tek_lock_init(&lock, NULL), 0);
	assert_string_equal(tek_lock_kind_of(&lock), "auto");
}

static void threads_count_right_under_every_kind(void **state)
{
	unsigned int number = 0;

	(void)state;
	for (const char *name; (name = tek_lock_kind_name(number)); number++) {
		assert_int_equal(tek_lock_init(&lock, name), 0);
		assert_true(strlen(tek_lock_kind_about(number)) > 0);
		count_together();
	}
	assert_true(number >= 11);
	assert_null(tek_lock_kind_about(number));
	assert_null(tek_lock_kind_name(number + 1));
	memset(&lock, 0, sizeof(lock));
	count_together();
	unsigned long slept, spun;
	tek_lock_auto_changes(&slept, &spun);
	assert_true(slept >= spun);
	tek_lock_auto_changes(NULL, NULL);
}

/* From another thread: the holder may not wait for it. */
static void *wait_in_vain(void *unused)
{
	const struct timespec past = {0}, none = {0, -1};

	(void)unused;
	if (tek_lock_timedlock(&lock, CLOCK_MONOTONIC, &past) != ETIMEDOUT)
		return "in the past";
	if (tek_lock_timedlock(&lock, CLOCK_REALTIME, &none) != EINVAL)
		return "no time";
	if (tek_lock_timedlock(&lock, CLOCK_PROCESS_CPUTIME_ID, &past) != EINVAL)
		return "another clock";
	return NULL;
}

static void a_thread_that_waits_until_a_time_gets_it_or_the_reason(void **state)
{
	const struct timespec past = {0};
	pthread_t thread;
	void *result;

	(void)state;
	for (unsigned int i = 0; tek_lock_kind_name(i); i++) {
		assert_int_equal(tek_lock_init(&lock, tek_lock_kind_name(i)), 0);
		assert_int_equal(tek_lock_timedlock(&lock, CLOCK_REALTIME, &past), 0);
		assert_int_equal(pthread_create(&thread, NULL, wait_in_vain, NULL), 0);
		assert_int_equal(pthread_join(thread, &result), 0);
		assert_null(result);
		tek_lock_unlock(&lock);
	}
}

static void *lock_and_unlock(void *unused)
{
	atomic_fetch_add(&waiting, 1);
	tek_lock_lock(&lock);
	tek_lock_unlock(&lock);
	return unused;
}

static int in_child(void)
{
	pthread_t thread;

	limit_to(30);
	tek_lock_unlock(&lock);
	if (tek_lock_trylock(&lock) != 0)
		return 1;
	pthread_create(&thread, NULL, lock_and_unlock, NULL);
	usleep(5000);
	tek_lock_unlock(&lock);
	return pthread_join(thread, NULL);
}

static void the_child_of_a_fork_unlocks_what_threads_wait_for_in_its_parent(void **state)
{
	pthread_t thread;
	int status;

	(void)state;
	for (unsigned int i = 0; tek_lock_kind_name(i); i++) {
		assert_int_equal(tek_lock_init(&lock, tek_lock_kind_name(i)), 0);
		atomic_store(&waiting, 0);
		tek_lock_lock(&lock);
		assert_int_equal(pthread_create(&thread, NULL, lock_and_unlock, NULL), 0);
		while (atomic_load(&waiting) == 0)
			usleep(100);
		usleep(20000);
		const pid_t child = fork();
		if (child == 0)
			_exit(in_child());
		tek_lock_unlock(&lock);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lock_of_zeros_is_free_and_chooses_itself),
		cmocka_unit_test(a_lock_is_of_the_kind_that_was_asked_for),
		cmocka_unit_test(threads_count_right_under_every_kind),
		cmocka_unit_test(a_thread_that_waits_until_a_time_gets_it_or_the_reason),
		cmocka_unit_test(the_child_of_a_fork_unlocks_what_threads_wait_for_in_its_parent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
