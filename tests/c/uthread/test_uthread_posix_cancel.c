/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "patience.h"
#include "uthread_posix.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>

static atomic_int reached, cleaned, finished, asked;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;

static int reset(void **state)
{
	(void)state;
	atomic_store(&reached, 0);
	atomic_store(&cleaned, 0);
	atomic_store(&finished, 0);
	atomic_store(&asked, 0);
	return 0;
}

static void clean(void *argument)
{
	(void)argument;
	atomic_fetch_add(&cleaned, 1);
}

static void cancel_and_join(pthread_t thread)
{
	assert_true(becomes(&reached, 1));
	nap(10);
	assert_int_equal(pthread_cancel(thread), 0);
	atomic_store(&asked, 1);
	assert_ptr_equal(result_of(thread), PTHREAD_CANCELED);
	assert_int_equal(atomic_load(&finished), 0);
}

static void *sleep_long(void *argument)
{
	pthread_cleanup_push(clean, NULL);
	pthread_cleanup_push(clean, NULL);
	atomic_store(&reached, 1);
	sleep(1000);
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
	atomic_store(&finished, 1);
	return argument;
}

static void a_thread_that_sleeps_is_cancelled_and_its_handlers_run(void **state)
{
	(void)state;
	cancel_and_join(start(sleep_long, NULL));
	assert_int_equal(atomic_load(&cleaned), 2);
}

static void unlock(void *argument)
{
	clean(argument);
	pthread_mutex_unlock(&mutex);
}

static void *wait_for_cond(void *argument)
{
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(unlock, NULL);
	atomic_store(&reached, 1);
	for (;;)
		pthread_cond_wait(&cond, &mutex);
	pthread_cleanup_pop(0);
	return argument;
}

static void a_thread_that_waits_for_a_condition_has_its_mutex_when_handlers_run(void **state)
{
	(void)state;
	cancel_and_join(start(wait_for_cond, NULL));
	assert_int_equal(atomic_load(&cleaned), 1);
	assert_int_equal(pthread_mutex_trylock(&mutex), 0);
	pthread_mutex_unlock(&mutex);
}

static void *wait_for_semaphore(void *argument)
{
	atomic_store(&reached, 1);
	sem_wait(&semaphore);
	atomic_store(&finished, 1);
	return argument;
}

static void a_thread_that_waits_for_a_semaphore_is_cancelled(void **state)
{
	(void)state;
	assert_int_equal(sem_init(&semaphore, 0, 0), 0);
	cancel_and_join(start(wait_for_semaphore, NULL));
	sem_destroy(&semaphore);
}

static void *read_a_pipe(void *argument)
{
	char byte;
	atomic_store(&reached, 1);
	(void)!read(*(int *)argument, &byte, 1);
	atomic_store(&finished, 1);
	return argument;
}

static void a_reader_is_cancelled(void **state)
{
	int ends[2];
	(void)state;
	assert_int_equal(pipe(ends), 0);
	cancel_and_join(start(read_a_pipe, &ends[0]));
	close(ends[0]);
	close(ends[1]);
}

static void *join_another(void *argument)
{
	atomic_store(&reached, 1);
	pthread_join(*(pthread_t *)argument, NULL);
	atomic_store(&finished, 1);
	return NULL;
}

static void a_thread_that_joins_is_cancelled_and_another_one_can_join(void **state)
{
	(void)state;
	pthread_t sleeper = start(sleep_long, NULL);
	assert_true(becomes(&reached, 1));
	atomic_store(&reached, 0);
	cancel_and_join(start(join_another, &sleeper));
	pthread_cancel(sleeper);
	assert_ptr_equal(result_of(sleeper), PTHREAD_CANCELED);
}

static pthread_mutex_t shared_mutex;
static pthread_cond_t shared_cond;

static void unlock_shared(void *argument)
{
	clean(argument);
	pthread_mutex_unlock(&shared_mutex);
}

static void *wait_for_shared(void *argument)
{
	pthread_mutex_lock(&shared_mutex);
	pthread_cleanup_push(unlock_shared, NULL);
	atomic_store(&reached, 1);
	for (;;)
		pthread_cond_wait(&shared_cond, &shared_mutex);
	pthread_cleanup_pop(0);
	return argument;
}

static void a_thread_that_waits_in_the_c_library_is_cancelled(void **state)
{
	pthread_mutexattr_t mutexattr;
	pthread_condattr_t condattr;
	(void)state;
	NEEDS_PREEMPTION();
	pthread_mutexattr_init(&mutexattr);
	pthread_mutexattr_setpshared(&mutexattr, PTHREAD_PROCESS_SHARED);
	assert_int_equal(pthread_mutex_init(&shared_mutex, &mutexattr), 0);
	pthread_condattr_init(&condattr);
	pthread_condattr_setpshared(&condattr, PTHREAD_PROCESS_SHARED);
	assert_int_equal(pthread_cond_init(&shared_cond, &condattr), 0);
	for (int i = 1; i <= 10; i++) {
		atomic_store(&reached, 0);
		cancel_and_join(start(wait_for_shared, NULL));
		assert_int_equal(atomic_load(&cleaned), i);
	}
	assert_int_equal(pthread_mutex_trylock(&shared_mutex), 0);
	pthread_mutex_unlock(&shared_mutex);
	pthread_cond_destroy(&shared_cond);
	pthread_mutex_destroy(&shared_mutex);
}

static void *wait_for_cancel_disabled(void *argument)
{
	int old;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	assert_int_equal(old, PTHREAD_CANCEL_ENABLE);
	atomic_store(&reached, 1);
	while (!atomic_load(&asked))
		nap(1);
	nap(10);
	pthread_testcancel();
	atomic_store(&cleaned, 1);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	pthread_testcancel();
	atomic_store(&finished, 1);
	return argument;
}

static void cancellation_waits_while_it_is_disabled(void **state)
{
	(void)state;
	cancel_and_join(start(wait_for_cancel_disabled, NULL));
	assert_int_equal(atomic_load(&cleaned), 1);
}

static void *spin(void *argument)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	pthread_cleanup_push(clean, NULL);
	atomic_store(&reached, 1);
	for (;;)
		;
	pthread_cleanup_pop(0);
	return argument;
}

static void a_thread_that_spins_is_cancelled_asynchronously(void **state)
{
	(void)state;
	NEEDS_PREEMPTION();
	for (int i = 0; i < 20; i++) {
		reset(NULL);
		cancel_and_join(start(spin, NULL));
		assert_int_equal(atomic_load(&cleaned), 1);
	}
}

static void *cancel_oneself(void *argument)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	pthread_cancel(pthread_self());
	atomic_store(&finished, 1);
	return argument;
}

static void one_can_cancel_oneself(void **state)
{
	(void)state;
	assert_ptr_equal(result_of(start(cancel_oneself, NULL)), PTHREAD_CANCELED);
	assert_int_equal(atomic_load(&finished), 0);
}

static pthread_key_t key;

static void *exit_with_a_key(void *argument)
{
	pthread_setspecific(key, argument);
	pthread_cleanup_push(clean, NULL);
	pthread_exit(argument);
	pthread_cleanup_pop(0);
}

static void end_of_key(void *value)
{
	(void)value;
	/* Handlers have run before. */
	if (atomic_load(&cleaned) == 1)
		atomic_store(&finished, 1);
}

static void destructors_of_keys_run_after_handlers(void **state)
{
	(void)state;
	assert_int_equal(pthread_key_create(&key, end_of_key), 0);
	result_of(start(exit_with_a_key, &key));
	assert_int_equal(atomic_load(&finished), 1);
	pthread_key_delete(key);
}

static void *nest(void *argument)
{
	pthread_cleanup_push(clean, NULL);
	if ((intptr_t)argument > 0)
		nest((void *)((intptr_t)argument - 1));
	sleep_long(NULL);
	pthread_cleanup_pop(0);
	return NULL;
}

static void handlers_of_all_frames_run(void **state)
{
	(void)state;
	cancel_and_join(start(nest, (void *)97));
	assert_int_equal(atomic_load(&cleaned), 100);
}

static pthread_t foreign;

/* The C library calls this in a thread of its own making. */
static void stay(union sigval unused)
{
	(void)unused;
	foreign = pthread_self();
	pthread_cleanup_push(clean, NULL);
	atomic_store(&reached, 1);
	for (;;)
		pause();
	pthread_cleanup_pop(0);
}

static void *wait_in_a_loop(void *argument)
{
	while (!atomic_load(&finished))
		;
	return argument;
}

/* The C library does it by a signal, which is the one of the engine's ticks, too. */
static void a_thread_of_the_kernel_is_cancelled_and_ticks_come_all_the_same(void **state)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = stay};
	const struct itimerspec soon = {.it_value = {.tv_nsec = 1000}};
	timer_t timer;
	(void)state;
	assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	assert_int_equal(timer_settime(timer, 0, &soon, NULL), 0);
	assert_true(becomes(&reached, 1));
	nap(10);
	assert_int_equal(pthread_cancel(foreign), 0);
	assert_true(becomes(&cleaned, 1));
	assert_int_equal(timer_delete(timer), 0);
	NEEDS_PREEMPTION();
	pthread_t thread = start(wait_in_a_loop, NULL);
	nap(10);
	atomic_store(&finished, 1);
	result_of(thread);
}

int main(void)
{
	limit_to(100);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_thread_that_sleeps_is_cancelled_and_its_handlers_run,
				       reset),
		cmocka_unit_test_setup(
			a_thread_that_waits_for_a_condition_has_its_mutex_when_handlers_run, reset),
		cmocka_unit_test_setup(a_thread_that_waits_for_a_semaphore_is_cancelled, reset),
		cmocka_unit_test_setup(a_reader_is_cancelled, reset),
		cmocka_unit_test_setup(a_thread_that_joins_is_cancelled_and_another_one_can_join,
				       reset),
		cmocka_unit_test_setup(a_thread_that_waits_in_the_c_library_is_cancelled, reset),
		cmocka_unit_test_setup(cancellation_waits_while_it_is_disabled, reset),
		cmocka_unit_test_setup(a_thread_that_spins_is_cancelled_asynchronously, reset),
		cmocka_unit_test_setup(one_can_cancel_oneself, reset),
		cmocka_unit_test_setup(destructors_of_keys_run_after_handlers, reset),
		cmocka_unit_test_setup(handlers_of_all_frames_run, reset),
		cmocka_unit_test_setup(
			a_thread_of_the_kernel_is_cancelled_and_ticks_come_all_the_same, reset),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
