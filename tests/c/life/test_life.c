/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads and processes that come and go in every way, and what is left of them. */
#include "life_support.h"

#include <threads.h>

static void *end_by_pthread_exit(void *argument)
{
	tek_critical_enter();
	pthread_exit(argument);
}

static void *end_by_return(void *argument)
{
	tek_critical_enter();
	return argument;
}

static void *end_by_cancellation(void *argument)
{
	static const struct timespec pause = {.tv_nsec = 1000000};

	/*
	 * Not pause(2): ThreadSanitizer loses track of a thread cancelled in one of its wrappers.
	 */
	tek_critical_enter();
	for (;;) {
		pthread_testcancel();
		syscall(SYS_nanosleep, &pause, NULL);
	}
	return argument;
}

static void *end_by_system_call(void *argument)
{
	tek_critical_enter();
	syscall(SYS_exit, 0);
	return argument;
}

static void a_thread_that_dies_critical_gives_its_slot_back(void **state)
{
	static void *(*const ways[])(void *) = {end_by_pthread_exit, end_by_return,
						end_by_cancellation};

	(void)state;
	tek_thread_mark(pthread_self(), 0); /* the main thread is known from here on */
	unsigned int before = threads_in_table();
	for (size_t i = 0; i < 3; i++) {
		pthread_t thread;
		assert_int_equal(pthread_create(&thread, NULL, ways[i], NULL), 0);
		if (ways[i] == end_by_cancellation)
			pthread_cancel(thread);
		pthread_join(thread, NULL);
		assert_int_equal(threads_in_table(), before);
	}
}

static void marked_threads_go_back_when_the_thread_they_follow_dies(void **state)
{
	static void *(*const ways[])(void *) = {end_by_pthread_exit, end_by_return,
						end_by_cancellation, end_by_system_call};
	struct waiter waiter;

	(void)state;
	need_real_time();
	waiter_start(&waiter, NULL);
	tek_thread_mark(waiter.thread, 1);
	/* The sanitizers do not survive a thread that ends past the C library. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	const size_t count = 3;
#else
	const size_t count = 4;
#endif
	for (size_t i = 0; i < count; i++) {
		pthread_t thread;
		assert_int_equal(pthread_create(&thread, NULL, ways[i], NULL), 0);
		if (ways[i] == end_by_cancellation) {
			for (int j = 0; j < 500 && !is_fast(waiter.tid); j++)
				sleep_ms(10);
			assert_true(is_fast(waiter.tid));
			pthread_cancel(thread);
		}
		pthread_join(thread, NULL);
		/* The guard finds a thread that ends by SYS_exit at its next poll. */
		for (int j = 0; j < 100 && is_fast(waiter.tid); j++)
			sleep_ms(10);
		assert_false(is_fast(waiter.tid));
	}
	waiter_end(&waiter);
}

static void *end_while_being_cancelled(void *argument)
{
	tek_critical_enter();
	pthread_cancel(pthread_self());
	tek_critical_leave(); /* no cancellation point, and neither is the end of the thread */
	return argument;
}

static int cancel_threads_that_use_tek(void)
{
	limit_to(20);
	/* With an event file the summary of each is written at its end. */
	for (int i = 0; i < 100; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, end_while_being_cancelled, NULL) ||
		    pthread_join(thread, NULL))
			return 1;
	}
	return tek_critical_enter() || tek_critical_leave();
}

static void a_pending_cancellation_does_not_leave_the_lock_held(void **state)
{
	(void)state;
	need_real_time();
	assert_int_equal(in_child(cancel_threads_that_use_tek), 0);
}

enum { SHARING = 4, SHARED_CREATIONS = 500 };
static pthread_t shared_handle;

static void *create_with_shared_handle(void *argument)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (int i = 0, end = rounds(SHARED_CREATIONS); i < end; i++)
		while (pthread_create(&shared_handle, &attr, nothing, NULL) == EAGAIN)
			sleep_ms(1);
	pthread_attr_destroy(&attr);
	return argument;
}

/* Careless, and common with detached threads, whose handles are not needed. */
static void threads_that_share_a_variable_for_the_handle_lose_no_slot(void **state)
{
	pthread_t threads[SHARING];

	(void)state;
#ifdef __SANITIZE_THREAD__
	print_message("# the program itself has a data race\n");
	skip();
#endif
	tek_thread_mark(pthread_self(), 0);
	unsigned int before = threads_in_table();
	for (int i = 0; i < SHARING; i++)
		pthread_create(&threads[i], NULL, create_with_shared_handle, NULL);
	for (int i = 0; i < SHARING; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 300 && threads_in_table() != before; i++)
		sleep_ms(10);
	assert_int_equal(threads_in_table(), before);
}

static void a_thread_that_reuses_the_handle_of_one_that_ended_unseen_is_itself(void **state)
{
	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	print_message("# the sanitizers do not survive a thread that ends past the C library\n");
	skip();
#endif
	need_real_time();
	for (int i = 0; i < 50; i++) {
		struct waiter waiter;
		pthread_t unseen;

		/*
		 * The C library gives the new thread the block, and so the handle, of the old one.
		 */
		assert_int_equal(pthread_create(&unseen, NULL, end_by_system_call, NULL), 0);
		pthread_join(unseen, NULL);
		waiter_start_unsynchronised(&waiter, NULL);
		assert_int_equal(set_tek(waiter.thread, 0), 0);
		pthread_barrier_wait(&waiter.ready);
		assert_true(is_fast(waiter.tid));
		assert_int_equal(set_other(waiter.thread), 0);
		assert_int_equal(kernel_policy(waiter.tid), SCHED_OTHER);
		waiter_end(&waiter);
	}
}

static pthread_key_t late_key;
static int late_rounds;
static int late_policy;

static void use_tek_late(void *value)
{
	late_policy = sched_getscheduler(0);
	if (++late_rounds < 2)
		pthread_setspecific(late_key, value);
}

static void *end_with_a_late_destructor(void *argument)
{
	pthread_setspecific(late_key, &late_key);
	tek_critical_enter();
	return argument;
}

static void destructors_of_thread_specific_data_still_run_in_the_fast_region(void **state)
{
	pthread_t thread;

	(void)state;
	need_real_time();
	unsigned int before = threads_in_table();
	pthread_key_create(&late_key, use_tek_late);
	pthread_create(&thread, NULL, end_with_a_late_destructor, NULL);
	pthread_join(thread, NULL);
	pthread_key_delete(late_key);
	assert_int_equal(late_rounds, 2);
	assert_int_equal(late_policy, SCHED_TEK);
	assert_int_equal(threads_in_table(), before);
}

static void ten_thousand_threads_leave_no_slot_behind(void **state)
{
	(void)state;
	tek_thread_mark(pthread_self(), 0);
	unsigned int before = threads_in_table();
	for (int i = 0, end = rounds(10000); i < end; i++) {
		pthread_t thread;
		assert_int_equal(pthread_create(&thread, NULL, nothing, NULL), 0);
		pthread_join(thread, NULL);
	}
	assert_int_equal(threads_in_table(), before);
}

static void detached_threads_leave_no_slot_behind(void **state)
{
	pthread_attr_t attr;

	(void)state;
	tek_thread_mark(pthread_self(), 0);
	unsigned int before = threads_in_table();
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (int i = 0, end = rounds(1000); i < end; i++) {
		pthread_t thread;
		while (pthread_create(&thread, &attr, nothing, NULL) == EAGAIN)
			sleep_ms(10);
	}
	for (int i = 0; i < 300 && threads_in_table() != before; i++)
		sleep_ms(10);
	assert_int_equal(threads_in_table(), before);
	pthread_attr_destroy(&attr);
}

static void threads_that_create_threads_at_the_same_time_lose_none(void **state)
{
	pthread_t threads[8];

	(void)state;
	tek_thread_mark(pthread_self(), 0);
	unsigned int before = threads_in_table();
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, create_and_join, NULL);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(threads_in_table(), before);
}

static void *unseen_main(void *argument)
{
	*(int *)argument = tek_critical_enter() == 0 && is_fast(0) && tek_critical_leave() == 0 &&
			   !is_fast(0);
	return NULL;
}

static void a_thread_that_came_by_no_door_is_adopted(void **state)
{
	int good = 0;
	pthread_t thread;

	(void)state;
#ifdef __SANITIZE_THREAD__
	print_message("# ThreadSanitizer does not know such a thread\n");
	skip();
#endif
	need_real_time();
	unsigned int before = threads_in_table();
	assert_int_equal(create_unseen(&thread, unseen_main, &good), 0);
	join_unseen(thread);
	assert_true(good);
	assert_int_equal(threads_in_table(), before);
}

static int wait_c11(void *ready)
{
	pthread_barrier_wait(ready);
	pthread_barrier_wait(ready);
	return -7;
}

static void a_thread_of_thrd_create_is_known_from_the_beginning(void **state)
{
	pthread_barrier_t ready;
	int result = 0;
	thrd_t thread;

	(void)state;
#ifdef __SANITIZE_THREAD__
	print_message("# ThreadSanitizer does not know thrd_join\n");
	skip();
#endif
	unsigned int before = threads_in_table();
	pthread_barrier_init(&ready, NULL, 2);
	assert_int_equal(thrd_create(&thread, wait_c11, &ready), thrd_success);
	pthread_barrier_wait(&ready);
	assert_int_equal(threads_in_table(), before + 1);
	pthread_barrier_wait(&ready);
	assert_int_equal(thrd_join(thread, &result), thrd_success);
	assert_int_equal(result, -7);
	assert_int_equal(threads_in_table(), before);
}

static void *return_while_being_cancelled(void *argument)
{
	int before;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
	return argument;
}

static void a_thread_that_is_cancelled_while_it_returns_holds_nothing_up(void **state)
{
	(void)state;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	print_message("# the sanitizers do not survive asynchronous cancellation\n");
	skip();
#endif
	for (int i = 0, end = rounds(20000); i < end; i++) {
		pthread_t thread;
		assert_int_equal(pthread_create(&thread, NULL, return_while_being_cancelled, NULL),
				 0);
		for (volatile int wait = 0; wait < i % 500; wait++)
			;
		pthread_cancel(thread);
		pthread_join(thread, NULL);
	}
}

static void a_program_that_cannot_be_replaced_keeps_its_table(void **state)
{
	static char long_argument[3 << 20];
	char *arguments[] = {"true", long_argument, NULL};

	(void)state;
	tek_thread_mark(pthread_self(), 0);
	unsigned int before = threads_in_table();
	memset(long_argument, 'x', sizeof(long_argument) - 1);
	assert_int_equal(execv("/bin/true", arguments), -1);
	assert_true(before > 0);
	assert_int_equal(threads_in_table(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_that_dies_critical_gives_its_slot_back),
		cmocka_unit_test(marked_threads_go_back_when_the_thread_they_follow_dies),
		cmocka_unit_test(destructors_of_thread_specific_data_still_run_in_the_fast_region),
		cmocka_unit_test(a_thread_that_is_cancelled_while_it_returns_holds_nothing_up),
		cmocka_unit_test(a_program_that_cannot_be_replaced_keeps_its_table),
		cmocka_unit_test(ten_thousand_threads_leave_no_slot_behind),
		cmocka_unit_test(detached_threads_leave_no_slot_behind),
		cmocka_unit_test(threads_that_create_threads_at_the_same_time_lose_none),
		cmocka_unit_test(
			a_thread_that_reuses_the_handle_of_one_that_ended_unseen_is_itself),
		cmocka_unit_test(a_pending_cancellation_does_not_leave_the_lock_held),
		cmocka_unit_test(threads_that_share_a_variable_for_the_handle_lose_no_slot),
		cmocka_unit_test(a_thread_that_came_by_no_door_is_adopted),
		cmocka_unit_test(a_thread_of_thrd_create_is_known_from_the_beginning),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
