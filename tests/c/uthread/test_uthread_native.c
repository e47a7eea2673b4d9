/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* tek/uthread.h as a program uses it: the start, threads, fork. */
#include "patience.h"
#include "uthread_objects.h"

#include <errno.h>

static void *add_one(void *argument)
{
	return (char *)argument + 1;
}

static void create_and_join(void)
{
	for (uintptr_t i = 0; i < 1000; i++) {
		tek_uthread_t thread;
		void *result;
		CHECK(tek_uthread_create(&thread, NULL, add_one, (void *)i) == 0);
		CHECK(tek_uthread_join(thread, &result) == 0);
		CHECK((uintptr_t)result == i + 1);
	}
}

static void a_thread_gives_its_result_to_the_one_that_joins_it(void **state)
{
	(void)state;
	in_all_engines(create_and_join);
}

static void *fork_once(void *argument)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		limit_to(20);
		create_and_join();
		_exit(7);
	}
	int status;
	while (waitpid(child, &status, 0) < 0)
		CHECK(errno == EINTR);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	return argument;
}

static void fork_in_threads(void)
{
	tek_uthread_t threads[4];

	for (int i = 0; i < 4; i++)
		CHECK(tek_uthread_create(&threads[i], NULL, fork_once, NULL) == 0);
	for (int i = 0; i < 4; i++)
		CHECK(tek_uthread_join(threads[i], NULL) == 0);
	fork_once(NULL);
	create_and_join();
}

static void the_child_of_a_fork_has_the_thread_that_called_it_and_can_make_more(void **state)
{
	(void)state;
	in_all_engines(fork_in_threads);
}

static void start_in_vain(void)
{
	const char *wrong;

	CHECK(tek_uthread_start(NULL, &wrong) == EBUSY);
}

static void the_engine_starts_once(void **state)
{
	(void)state;
	in_engine("workers=1", start_in_vain);
}

static void options_that_make_no_sense_start_nothing(void **state)
{
	const char *wrong = NULL;

	(void)state;
	assert_int_equal(tek_uthread_start("workers=0", &wrong), EINVAL);
	assert_string_equal(wrong, "workers is a number from 1 to 256");
	assert_int_equal(tek_uthread_start("sched=none,workers=0", NULL), EINVAL);
	in_engine("workers=1", create_and_join); /* still possible */
}

/*
 * The user of a program is not its author: the user's mistake is reported, and does not stop the
 * program.
 */
static void what_makes_no_sense_in_the_variable_is_reported_and_passed_by(void **state)
{
	char reported[512] = "";
	int ends[2], status;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	pid_t child = fork();
	if (child == 0) {
		const char *wrong = "";
		limit_to(20);
		dup2(ends[1], STDERR_FILENO);
		setenv("TEK_UTHREAD", "nonsense,workers=two,sched=mlfq", 1);
		CHECK(tek_uthread_start("workers=1", &wrong) == 0);
		CHECK(wrong == NULL);
		create_and_join();
		_exit(7);
	}
	close(ends[1]);
	while (waitpid(child, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	assert_true(read(ends[0], reported, sizeof(reported) - 1) > 0);
	close(ends[0]);
	assert_non_null(
		strstr(reported, "tek: TEK_UTHREAD: nonsense: no such option: there are workers="));
	assert_non_null(
		strstr(reported, "tek: TEK_UTHREAD: workers=two: workers is a number from 1 to"));
	assert_null(strstr(reported, "mlfq: "));
}

static void ask_for_nonsense(void)
{
	const struct tek_uthread_attributes flags = {.detached = 2},
					    name = {.name = "0123456789abcdef"},
					    priority = {.has_priority = 1, .priority = 100},
					    huge = {.stack_bytes = SIZE_MAX};
	tek_uthread_t thread;

	CHECK(tek_uthread_create(&thread, &flags, add_one, NULL) == EINVAL);
	CHECK(tek_uthread_create(&thread, &priority, add_one, NULL) == EINVAL);
	CHECK(tek_uthread_create(&thread, &name, add_one, NULL) == ERANGE);
	CHECK(tek_uthread_create(&thread, &huge, add_one, NULL) == EAGAIN);
	CHECK(tek_uthread_join(tek_uthread_self(), NULL) == EDEADLK);
}

static void attributes_that_make_no_sense_are_refused(void **state)
{
	(void)state;
	in_engine("workers=1", ask_for_nonsense);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_gives_its_result_to_the_one_that_joins_it),
		cmocka_unit_test(
			the_child_of_a_fork_has_the_thread_that_called_it_and_can_make_more),
		cmocka_unit_test(the_engine_starts_once),
		cmocka_unit_test(options_that_make_no_sense_start_nothing),
		cmocka_unit_test(what_makes_no_sense_in_the_variable_is_reported_and_passed_by),
		cmocka_unit_test(attributes_that_make_no_sense_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
