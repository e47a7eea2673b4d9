/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "patience.h"
#include "uthread_posix.h"

#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <tek/tek.h>
#include <threads.h>

static void *give_back(void *argument)
{
	return argument;
}

static void joining_gives_what_the_routine_returns(void **state)
{
	(void)state;
	for (uintptr_t i = 0; i < 1000; i++)
		assert_ptr_equal(result_of(start(give_back, (void *)i)), (void *)i);
}

static void *exit_deep_down(void *argument)
{
	pthread_exit(argument);
}

static void joining_gives_what_was_exited_with(void **state)
{
	(void)state;
	assert_int_equal((intptr_t)result_of(start(exit_deep_down, (void *)7)), 7);
}

static void *report_self(void *argument)
{
	*(pthread_t *)argument = pthread_self();
	return NULL;
}

static void a_thread_knows_its_own_handle(void **state)
{
	pthread_t reported;
	(void)state;
	pthread_t thread = start(report_self, &reported);
	result_of(thread);
	assert_true(pthread_equal(thread, reported));
	assert_false(pthread_equal(thread, pthread_self()));
}

static void a_thread_that_has_been_joined_is_not_found(void **state)
{
	(void)state;
	if (!on_user_level()) {
		print_message("# not promised by this C library\n");
		skip();
	}
	pthread_t thread = start(give_back, NULL);
	result_of(thread);
	assert_int_equal(pthread_join(thread, NULL), ESRCH);
	assert_int_equal(pthread_detach(thread), ESRCH);
	assert_int_equal(pthread_cancel(thread), ESRCH);
	assert_int_equal(pthread_kill(thread, 0), ESRCH);
	assert_int_equal(pthread_kill((pthread_t)0, 0), ESRCH);
}

static void nobody_joins_himself(void **state)
{
	(void)state;
	assert_int_equal(pthread_join(pthread_self(), NULL), EDEADLK);
}

static void a_detached_thread_cannot_be_joined(void **state)
{
	static atomic_int flag; /* the thread may read it at any time */
	(void)state;
	pthread_t thread = start(wait_for_flag, &flag);
	assert_int_equal(pthread_detach(thread), 0);
	assert_int_equal(pthread_join(thread, NULL), EINVAL);
	assert_int_equal(pthread_detach(thread), EINVAL);
	atomic_store(&flag, 1);
	nap(20);
}

static void joining_can_be_tried_and_has_a_time(void **state)
{
	atomic_int flag = 0;
	(void)state;
	pthread_t thread = start(wait_for_flag, &flag);
	assert_int_equal(pthread_tryjoin_np(thread, NULL), EBUSY);
	const struct timespec soon = in_ms(CLOCK_REALTIME, 20);
	assert_int_equal(pthread_timedjoin_np(thread, NULL, &soon), ETIMEDOUT);
	atomic_store(&flag, 1);
	assert_ptr_equal(result_of(thread), &flag);
}

static atomic_int sum;

static void *add_one(void *argument)
{
	atomic_fetch_add(&sum, 1);
	return argument;
}

static void thousands_of_detached_threads_run_and_are_forgotten(void **state)
{
	pthread_attr_t attr;
	(void)state;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (int i = 0; i < 3000; i++) {
		pthread_t thread;
		assert_int_equal(pthread_create(&thread, &attr, add_one, NULL), 0);
		if (i % 100 == 99)
			assert_true(becomes(&sum, i + 1));
	}
	pthread_attr_destroy(&attr);
}

static void a_name_is_returned_as_it_was_set(void **state)
{
	atomic_int flag = 0;
	char name[16];
	(void)state;
	pthread_t thread = start(wait_for_flag, &flag);
	assert_int_equal(pthread_setname_np(thread, "fifteen letters"), 0);
	assert_int_equal(pthread_setname_np(thread, "sixteen letters!"), ERANGE);
	assert_int_equal(pthread_getname_np(thread, name, sizeof(name)), 0);
	assert_string_equal(name, "fifteen letters");
	assert_int_equal(pthread_getname_np(thread, name, 3), ERANGE);
	atomic_store(&flag, 1);
	result_of(thread);
}

static int give_three(void *argument)
{
	(void)argument;
	thrd_exit(3);
}

static void threads_of_c11_are_threads(void **state)
{
	thrd_t thread;
	int result = 0;
	(void)state;
	assert_int_equal(thrd_create(&thread, give_three, NULL), thrd_success);
	assert_int_equal(thrd_join(thread, &result), thrd_success);
	assert_int_equal(result, 3);
	assert_true(thrd_equal(thrd_current(), thrd_current()));
}

static void priorities_are_returned_as_they_were_set(void **state)
{
	struct sched_param param = {.sched_priority = 10};
	atomic_int flag = 0;
	int policy;
	(void)state;
	pthread_t thread = start(wait_for_flag, &flag);
	assert_int_equal(pthread_setschedparam(thread, 4711, &param), EINVAL);
	if (pthread_setschedparam(thread, SCHED_RR, &param) == 0) {
		assert_int_equal(pthread_getschedparam(thread, &policy, &param), 0);
		assert_int_equal(policy, SCHED_RR);
		assert_int_equal(param.sched_priority, 10);
	}
	atomic_store(&flag, 1);
	result_of(thread);
}

struct runner {
	sem_t begun, go;
	atomic_int *iteration;
	int went; /* its place in the order: 0, 1 */
};

static void *run_in_order(void *argument)
{
	struct runner *runner = argument;

	sem_post(&runner->begun);
	while (sem_wait(&runner->go) != 0)
		;
	runner->went = atomic_fetch_add(runner->iteration, 1);
	return NULL;
}

static void a_priority_of_sched_tek_is_a_nice_value(void **state)
{
	static const int nice[] = {5, -5};
	struct sched_param param = {.sched_priority = TEK_PRIORITY_MIN - 1};
	struct runner runners[2];
	pthread_t threads[2];
	atomic_int iteration = 0;
	int policy;

	(void)state;
	if (!on_user_level())
		skip(); /* the C library does not know the policy */
	assert_int_equal(sched_get_priority_min(SCHED_TEK), TEK_PRIORITY_MIN);
	assert_int_equal(sched_get_priority_max(SCHED_TEK), TEK_PRIORITY_MAX);
	assert_int_equal(sched_get_priority_max(SCHED_FIFO), 99);
	assert_int_equal(sched_get_priority_min(4711), -1);
	assert_int_equal(pthread_setschedparam(pthread_self(), SCHED_TEK, &param), EINVAL);
	param.sched_priority = TEK_PRIORITY_MAX + 1;
	assert_int_equal(pthread_setschedparam(pthread_self(), SCHED_TEK, &param), EINVAL);

	for (int i = 0; i < 2; i++) {
		runners[i].iteration = &iteration;
		sem_init(&runners[i].begun, 0, 0);
		sem_init(&runners[i].go, 0, 0);
		threads[i] = start(run_in_order, &runners[i]);
		sem_wait(&runners[i].begun);
		param.sched_priority = nice[i];
		assert_int_equal(pthread_setschedparam(threads[i], SCHED_TEK, &param), 0);
		assert_int_equal(pthread_getschedparam(threads[i], &policy, &param), 0);
		assert_int_equal(policy, SCHED_TEK);
		assert_int_equal(param.sched_priority, nice[i]);
	}
	param.sched_priority = TEK_PRIORITY_MIN;
	assert_int_equal(pthread_setschedparam(pthread_self(), SCHED_TEK, &param), 0);
	for (int i = 0; i < 2; i++)
		sem_post(&runners[i].go);
	for (int i = 0; i < 2; i++)
		result_of(threads[i]);
	/* Where both do not run at once the lesser value goes first. */
	if (strstr(getenv("TEK_UTHREAD"), "workers=1"))
		assert_int_equal(runners[1].went, 0);
	param.sched_priority = 0;
	assert_int_equal(pthread_setschedparam(pthread_self(), SCHED_OTHER, &param), 0);
}

static void *leave_main_and_print(void *argument)
{
	nap(50);
	(void)!write(*(int *)argument, "x", 1);
	return NULL;
}

static void the_process_lives_until_its_last_thread_ends(void **state)
{
	static int ends[2];
	char byte = 0;
	int status;
	(void)state;
	assert_int_equal(pipe(ends), 0);
	pid_t child = fork();
	assert_int_not_equal(child, -1);
	if (child == 0) {
		pthread_t thread;
		pthread_create(&thread, NULL, leave_main_and_print, &ends[1]);
		pthread_exit(NULL);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	close(ends[0]);
	close(ends[1]);
}

static void *fork_and_make_threads(void *argument)
{
	(void)argument;
	pid_t child = fork();
	if (child == 0) {
		for (int round = 0; round < 20; round++) {
			pthread_t threads[10];
			for (int i = 0; i < 10; i++) {
				if (pthread_create(&threads[i], NULL, give_back, NULL) != 0)
					_exit(1);
			}
			for (int i = 0; i < 10; i++) {
				if (pthread_join(threads[i], NULL) != 0)
					_exit(2);
			}
			nap(1);
		}
		_exit(0);
	}
	int status = -1;
	waitpid(child, &status, 0);
	return (void *)(intptr_t)status;
}

static void children_of_any_thread_have_threads_of_their_own(void **state)
{
	(void)state;
	assert_int_equal((intptr_t)fork_and_make_threads(NULL), 0);
	for (int round = 0; round < 5; round++) {
		pthread_t threads[4];
		for (int i = 0; i < 4; i++)
			threads[i] = start(fork_and_make_threads, NULL);
		for (int i = 0; i < 4; i++)
			assert_int_equal((intptr_t)result_of(threads[i]), 0);
	}
}

int main(void)
{
	limit_to(100);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(joining_gives_what_the_routine_returns),
		cmocka_unit_test(joining_gives_what_was_exited_with),
		cmocka_unit_test(a_thread_knows_its_own_handle),
		cmocka_unit_test(a_thread_that_has_been_joined_is_not_found),
		cmocka_unit_test(nobody_joins_himself),
		cmocka_unit_test(a_detached_thread_cannot_be_joined),
		cmocka_unit_test(joining_can_be_tried_and_has_a_time),
		cmocka_unit_test(thousands_of_detached_threads_run_and_are_forgotten),
		cmocka_unit_test(a_name_is_returned_as_it_was_set),
		cmocka_unit_test(threads_of_c11_are_threads),
		cmocka_unit_test(priorities_are_returned_as_they_were_set),
		cmocka_unit_test(a_priority_of_sched_tek_is_a_nice_value),
		cmocka_unit_test(the_process_lives_until_its_last_thread_ends),
		cmocka_unit_test(children_of_any_thread_have_threads_of_their_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
