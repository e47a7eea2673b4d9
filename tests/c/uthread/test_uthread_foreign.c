/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that the C library makes for a program without pthread_create(): they are always kernel
 * threads, and use the objects of the program's threads.  Each test is a process of its own, where
 * the first of them comes at another moment.
 */
#include "patience.h"
#include "uthread_posix.h"

#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1); \
		} \
	} while (0)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static long long counter;
static atomic_int begun, came;

static void in_child(void (*body)(void))
{
	fflush(NULL);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		limit_to(60);
		body();
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* Calls `function` in `us` microseconds, and if `again` is set at that interval from then on. */
static timer_t call_later(void (*function)(union sigval), long us, bool again)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = function};
	struct itimerspec times = {.it_value.tv_nsec = us * 1000};
	timer_t timer;

	if (again)
		times.it_interval = times.it_value;
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	CHECK(timer_settime(timer, 0, &times, NULL) == 0);
	return timer;
}

static void count_once(void)
{
	CHECK(pthread_mutex_lock(&mutex) == 0);
	counter++;
	CHECK(pthread_mutex_unlock(&mutex) == 0);
}

enum { CALLS = 50, EACH = 200 };

static void count_often(union sigval unused)
{
	(void)unused;
	atomic_fetch_add(&begun, 1);
	for (int i = 0; i < EACH; i++)
		count_once();
	atomic_fetch_add(&came, 1);
}

static void *count_until_all_came(void *argument)
{
	uintptr_t times = 0;

	(void)argument;
	while (atomic_load_explicit(&came, memory_order_relaxed) < CALLS) {
		count_once();
		if (++times % 64 == 0)
			sched_yield();
	}
	return (void *)times;
}

static void count_together(void)
{
	pthread_t threads[5];
	long long all = 0;

	for (int i = 0; i < 5; i++)
		threads[i] = start(count_until_all_came, NULL);
	timer_t timer = call_later(count_often, 300, true);
	for (int i = 0; i < 5; i++)
		all += (long long)(uintptr_t)result_of(threads[i]);
	timer_delete(timer);
	/* Wait for the threads that have begun; a thread that begins now does not count. */
	CHECK(pthread_mutex_lock(&mutex) == 0);
	while (atomic_load(&begun) != atomic_load(&came)) {
		CHECK(pthread_mutex_unlock(&mutex) == 0);
		nap(10);
		CHECK(pthread_mutex_lock(&mutex) == 0);
	}
	CHECK(counter == all + (long long)EACH * atomic_load(&came));
}

static void they_lock_what_other_threads_lock(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++)
		in_child(count_together);
}

static void signal_all(union sigval unused)
{
	(void)unused;
	CHECK(pthread_mutex_lock(&mutex) == 0);
	atomic_store(&came, 1);
	CHECK(pthread_cond_broadcast(&cond) == 0);
	CHECK(pthread_mutex_unlock(&mutex) == 0);
	CHECK(sem_post(&semaphore) == 0);
}

static void *wait_for_signal(void *argument)
{
	CHECK(pthread_mutex_lock(&mutex) == 0);
	while (!atomic_load(&came))
		CHECK(pthread_cond_wait(&cond, &mutex) == 0);
	CHECK(pthread_mutex_unlock(&mutex) == 0);
	CHECK(sem_wait(&semaphore) == 0);
	CHECK(sem_post(&semaphore) == 0);
	return argument;
}

static void wait_for_them(void)
{
	pthread_t threads[3];

	CHECK(sem_init(&semaphore, 0, 0) == 0);
	for (int i = 0; i < 3; i++)
		threads[i] = start(wait_for_signal, NULL);
	call_later(signal_all, 2000, false);
	for (int i = 0; i < 3; i++)
		result_of(threads[i]);
}

static void they_wake_those_that_wait(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++)
		in_child(wait_for_them);
}

static void *give_back(void *argument)
{
	count_once();
	return argument;
}

static void make_threads(union sigval unused)
{
	pthread_t threads[4];

	(void)unused;
	for (uintptr_t i = 0; i < 4; i++)
		CHECK(pthread_create(&threads[i], NULL, give_back, (void *)i) == 0);
	for (uintptr_t i = 0; i < 4; i++) {
		void *result = NULL;
		CHECK(pthread_join(threads[i], &result) == 0 && result == (void *)i);
	}
	CHECK(sem_post(&semaphore) == 0);
}

static void let_them_make_threads(void)
{
	CHECK(sem_init(&semaphore, 0, 0) == 0);
	call_later(make_threads, 1000, false);
	while (sem_wait(&semaphore) != 0)
		CHECK(errno == EINTR);
	CHECK(counter == 4);
}

static void they_make_threads_of_their_own(void **state)
{
	(void)state;
	in_child(let_them_make_threads);
}

/* The thread that computes never calls anything. */
static void compute_meanwhile(void)
{
	CHECK(sem_init(&semaphore, 0, 0) == 0);
	call_later(signal_all, 1000, false);
	while (!atomic_load_explicit(&came, memory_order_relaxed))
		;
}

static void they_come_while_a_thread_computes(void **state)
{
	(void)state;
	in_child(compute_meanwhile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_lock_what_other_threads_lock),
		cmocka_unit_test(they_wake_those_that_wait),
		cmocka_unit_test(they_make_threads_of_their_own),
		cmocka_unit_test(they_come_while_a_thread_computes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
