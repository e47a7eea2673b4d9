/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Condition variables of an ordinary program, those of threads.h among them. */
#include "sync_waiting.h"

#include <threads.h>

static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void *wait_once(void *argument)
{
	(void)argument;
	pthread_mutex_lock(&mutex);
	atomic_fetch_add(&waiting, 1);
	pthread_cond_wait(&cond, &mutex);
	atomic_fetch_add(&woken, 1);
	pthread_mutex_unlock(&mutex);
	return NULL;
}

static void unlock(void *object)
{
	pthread_mutex_unlock(object);
}

static void *wait_and_be_counted(void *argument)
{
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(unlock, &mutex);
	atomic_fetch_add(&waiting, 1);
	while (atomic_load(&woken) == 0)
		pthread_cond_wait(&cond, &mutex);
	atomic_fetch_sub(&woken, 1);
	pthread_cleanup_pop(1);
	return argument;
}

static void a_signal_wakes_one_and_a_broadcast_the_rest(void **state)
{
	pthread_t threads[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		threads[i] = start(wait_once, NULL);
	assert_true(becomes(&waiting, 4));
	pthread_mutex_lock(&mutex);
	pthread_cond_signal(&cond);
	pthread_mutex_unlock(&mutex);
	assert_true(becomes(&woken, 1));
	pthread_mutex_lock(&mutex);
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < 4; i++)
		result_of(threads[i]);
	assert_int_equal(pthread_cond_destroy(&cond), 0);
	cond = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

/*
 * One of two waiters is cancelled as it is signalled.  The other waiter gets that signal, or the
 * cancelled waiter takes it.
 */
static void a_cancelled_waiter_loses_no_signal(void **state)
{
	(void)state;
	for (int i = 0; i < 50; i++) {
		atomic_store(&waiting, 0);
		atomic_store(&woken, 0);
		pthread_t doomed = start(wait_and_be_counted, &cond),
			  other = start(wait_and_be_counted, &cond);
		assert_true(becomes(&waiting, 2));
		pthread_mutex_lock(&mutex);
		atomic_store(&woken, 2);
		pthread_cond_signal(&cond);
		pthread_mutex_unlock(&mutex);
		pthread_cancel(doomed);
		void *result = result_of(doomed);
		if (result != PTHREAD_CANCELED)
			pthread_cond_signal(&cond); /* it was its own */
		assert_ptr_equal(result_of(other), &cond);
	}
}

static void spin_us(long us)
{
	const struct timespec begin = in_ms(CLOCK_MONOTONIC, 0);
	struct timespec now;

	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 < us);
}

static void end_slowly(void *unused)
{
	(void)unused;
	spin_us(50);
}

static pthread_key_t slow_end;
static atomic_bool came_back;

static void *come_back(void *argument)
{
	pthread_setspecific(slow_end, argument);
	wait_and_be_counted(argument);
	atomic_store(&came_back, true);
	return argument;
}

/* Cancelled as it wakes: that must not be on its way still when it returns. */
static void a_thread_that_came_back_from_its_wait_was_not_cancelled(void **state)
{
	(void)state;
	assert_int_equal(pthread_key_create(&slow_end, end_slowly), 0);
	/* Fewer where spinning threads outnumber the CPUs. */
	const struct timespec end = in_ms(CLOCK_MONOTONIC, 1500);
	for (int i = 0; i < 5000 && (i < 500 || !is_over(&end)); i++) {
		atomic_store(&waiting, 0);
		atomic_store(&woken, 0);
		atomic_store(&came_back, false);
		pthread_t thread = start(come_back, &cond);
		while (atomic_load(&waiting) == 0)
			sched_yield();
		pthread_mutex_lock(&mutex);
		atomic_store(&woken, 1);
		pthread_cond_signal(&cond);
		pthread_mutex_unlock(&mutex);
		spin_us(i % 4);
		pthread_cancel(thread);
		void *result = result_of(thread);
		assert_ptr_equal(result, atomic_load(&came_back) ? &cond : PTHREAD_CANCELED);
	}
	pthread_key_delete(slow_end);
}

static void waits_end_at_their_time_by_either_clock(void **state)
{
	struct timespec time = in_ms(CLOCK_REALTIME, 5), none = {1, 1000000000};
	pthread_condattr_t attributes;
	pthread_cond_t made;

	(void)state;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	assert_int_equal(pthread_cond_init(&made, &attributes), 0);
	pthread_mutex_lock(&mutex);
	assert_int_equal(pthread_cond_timedwait(&cond, &mutex, &time), ETIMEDOUT);
	time = in_ms(CLOCK_MONOTONIC, 5);
	assert_int_equal(pthread_cond_timedwait(&made, &mutex, &time), ETIMEDOUT);
	time = in_ms(CLOCK_MONOTONIC, 5);
	assert_int_equal(pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &time), ETIMEDOUT);
	time = in_ms(CLOCK_REALTIME, 5);
	assert_int_equal(pthread_cond_clockwait(&made, &mutex, CLOCK_REALTIME, &time), ETIMEDOUT);
	assert_int_equal(pthread_cond_timedwait(&made, &mutex, &none), EINVAL);
	pthread_mutex_unlock(&mutex);
	assert_int_equal(tried_by_another(&mutex), 0);
	assert_int_equal(pthread_cond_destroy(&made), 0);
}

static mtx_t c11_mutex;
static cnd_t c11_cond;
static int count;

static void *count_with_c11(void *argument)
{
	mtx_lock(&c11_mutex);
	if (++count == 2)
		cnd_broadcast(&c11_cond);
	while (count < 2)
		cnd_wait(&c11_cond, &c11_mutex);
	mtx_unlock(&c11_mutex);
	return argument;
}

static void those_of_threads_h_are_the_same(void **state)
{
	struct timespec past = {1, 0};

	(void)state;
	assert_int_equal(mtx_init(&c11_mutex, mtx_timed | mtx_recursive), thrd_success);
	assert_int_equal(cnd_init(&c11_cond), thrd_success);
	assert_int_equal(mtx_lock(&c11_mutex), thrd_success);
	assert_int_equal(mtx_timedlock(&c11_mutex, &past), thrd_success);
	mtx_unlock(&c11_mutex);
	assert_int_equal(cnd_timedwait(&c11_cond, &c11_mutex, &past), thrd_timedout);
	mtx_unlock(&c11_mutex);
	count = 0;
	pthread_t threads[2] = {start(count_with_c11, NULL), start(count_with_c11, NULL)};
	result_of(threads[0]);
	result_of(threads[1]);
	cnd_destroy(&c11_cond);
	mtx_destroy(&c11_mutex);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_signal_wakes_one_and_a_broadcast_the_rest, reset),
		cmocka_unit_test_setup(a_cancelled_waiter_loses_no_signal, reset),
		cmocka_unit_test(a_thread_that_came_back_from_its_wait_was_not_cancelled),
		cmocka_unit_test(waits_end_at_their_time_by_either_clock),
		cmocka_unit_test(those_of_threads_h_are_the_same),
	};
	start_watchdog();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
