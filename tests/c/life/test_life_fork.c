/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* TEK in children of fork(2) and clone(2), at whatever moment they are made. */
#include "life_support.h"

#include <link.h>
#include <signal.h>
#include <sys/time.h>

static int a_forked_child_is_a_process_of_its_own(void)
{
	if (is_fast(0) || sched_getscheduler(0) != SCHED_OTHER)
		return 1;
	if (tek_critical_leave() != EINVAL)
		return 2;
	if (tek_critical_enter() || !is_fast(0) || tek_critical_leave() || is_fast(0))
		return 3;
	pthread_t thread;
	if (pthread_create(&thread, NULL, create_and_join, NULL) || pthread_join(thread, NULL))
		return 4;
	return threads_in_table() == 1 ? 0 : 5; /* its own table, with its one thread */
}

static void a_child_of_fork_can_use_tek_itself(void **state)
{
	(void)state;
	need_real_time();
	assert_int_equal(in_child(a_forked_child_is_a_process_of_its_own), 0);
	assert_int_equal(tek_critical_enter(), 0);
	assert_int_equal(in_child(a_forked_child_is_a_process_of_its_own), 0);
	assert_int_equal(tek_critical_leave(), 0);
}

static void a_child_of_a_raw_clone_does_not_write_into_its_parents_table(void **state)
{
	int status;

	(void)state;
	tek_thread_mark(pthread_self(), 0);
	unsigned int before = threads_in_table();
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		/* No fork handler has run; TEK must notice by itself. */
		tek_thread_mark(pthread_self(), 1);
		_exit(threads_in_table() == 1 ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(threads_in_table(), before);
}

static bool stop_forking;

static void *fork_in_a_loop(void *argument)
{
	while (!__atomic_load_n(&stop_forking, __ATOMIC_RELAXED)) {
		pid_t pid = fork();
		if (pid == 0)
			_exit(tek_critical_leave() == EINVAL ? 0 : 1);
		int status;
		waitpid(pid, &status, 0);
		if (status)
			return &stop_forking;
	}
	return argument;
}

static void forking_while_other_threads_use_tek_harms_nobody(void **state)
{
	pthread_t forker;
	void *result;

	(void)state;
	need_real_time();
	stop_forking = false;
	pthread_create(&forker, NULL, fork_in_a_loop, NULL);
	for (int i = 0, end = rounds(3000); i < end; i++) {
		assert_int_equal(tek_critical_enter(), 0);
		assert_int_equal(tek_critical_leave(), 0);
	}
	create_and_join(NULL);
	__atomic_store_n(&stop_forking, true, __ATOMIC_RELAXED);
	pthread_join(forker, &result);
	assert_null(result);
}

static pid_t forked_in_handler;

static void fork_in_handler(int number)
{
	(void)number;
	forked_in_handler = fork();
	if (forked_in_handler == 0)
		signal(SIGSEGV, SIG_DFL); /* cmocka would go on with the next test */
}

/* The child of a fork in the middle of a call goes on with that call. */
static void a_handler_that_forks_may_interrupt_any_read(void **state)
{
	struct tek_attributes attributes;
	struct waiter waiter;
	unsigned int good = 0;

	(void)state;
#ifdef __SANITIZE_THREAD__
	print_message("# ThreadSanitizer does not survive a fork in a handler\n");
	skip();
#endif
	waiter_start(&waiter, NULL);
	signal(SIGALRM, fork_in_handler);
	for (int i = 0; i < 300; i++) {
		struct itimerval soon = {.it_value = {.tv_usec = 20 + i % 50}};
		int status;
		forked_in_handler = -1;
		setitimer(ITIMER_REAL, &soon, NULL);
		while (forked_in_handler < 0) {
			tek_thread_get_attributes(pthread_self(), &attributes);
			tek_tid_get_attributes(waiter.tid, &attributes);
		}
		if (forked_in_handler == 0)
			_exit(tek_thread_get_attributes(pthread_self(), &attributes) != 0);
		assert_int_equal(waitpid(forked_in_handler, &status, 0), forked_in_handler);
		good += status == 0;
	}
	signal(SIGALRM, SIG_DFL);
	waiter_end(&waiter);
	assert_int_equal(good, 300);
}

static int each_module(struct dl_phdr_info *info, size_t size, void *end)
{
	(void)info;
	(void)size;
	return __atomic_load_n((bool *)end, __ATOMIC_RELAXED);
}

static int holding;

static void *hold_the_loaders_lock(void *end)
{
	__atomic_fetch_add(&holding, 1, __ATOMIC_RELAXED);
	while (!__atomic_load_n((bool *)end, __ATOMIC_RELAXED))
		dl_iterate_phdr(each_module, end);
	return NULL;
}

static int create_a_thread(void)
{
	pthread_t thread;
	limit_to(10); /* it must not wait for a lock without a living holder */
	return pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL);
}

static void a_forked_child_can_create_threads_whoever_held_the_loaders_lock(void **state)
{
	pthread_t threads[3];
	bool end = false;

	(void)state;
#ifdef __SANITIZE_THREAD__
	print_message("# ThreadSanitizer wants no threads in a forked child\n");
	skip();
#endif
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, hold_the_loaders_lock, &end);
	/* A thread that begins may have a lock of the sanitizer's, which a child would wait for. */
	while (__atomic_load_n(&holding, __ATOMIC_RELAXED) < 3)
		sched_yield();
	for (int i = 0; i < 50; i++)
		assert_int_equal(in_child(create_a_thread), 0);
	__atomic_store_n(&end, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_handler_that_forks_may_interrupt_any_read),
		cmocka_unit_test(a_forked_child_can_create_threads_whoever_held_the_loaders_lock),
		cmocka_unit_test(a_child_of_fork_can_use_tek_itself),
		cmocka_unit_test(a_child_of_a_raw_clone_does_not_write_into_its_parents_table),
		cmocka_unit_test(forking_while_other_threads_use_tek_harms_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
