/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Actions of a program beside its requests to tekd: fork, exec, closing and opening of files, many
 * threads, and signals.
 */
#include "daemon_support.h"

#include <fcntl.h>
#include <sys/time.h>

static int be_the_child(void)
{
	expect(!is_fast(0) && policy_of(pthread_self()) == SCHED_OTHER);
	expect(set_tek(pthread_self(), -1) == 0 && is_fast(0));
	expect(fake->connections == 2 && fake->open_connections == 2);
	return 0;
}

static void forks(void)
{
	expect(set_tek(pthread_self(), 0) == 0);
	expect(in_child(be_the_child) == 0);
	expect(is_fast(0) && set_tek(pthread_self(), -2) == 0 && kernel_rt_priority(0) == 31);
	sleep_ms(20);
	expect(fake->connections == 2 && fake->open_connections == 1);
}

static void the_child_of_a_fork_is_not_fast_and_has_a_connection_of_its_own(void **state)
{
	(void)state;
	with_daemon(GRANTS, forks);
}

static void executes(void)
{
	char *const nothing[] = {"nothing", NULL};
	/* Becomes a program that prints its policy, and whether it inherited a socket. */
	char *const script[] = {"sh", "-c",
				"set -- $(cat /proc/self/stat); test ${41} = 0 && "
				"! ls -l /proc/self/fd | grep -q socket",
				NULL};

	expect(set_tek(pthread_self(), 0) == 0);
	expect(execv("/nowhere/nothing", nothing) == -1 && errno == ENOENT);
	expect(is_fast(0) && policy_of(pthread_self()) == SCHED_TEK);
	execv("/bin/sh", script);
	_exit(1);
}

static void a_program_that_a_fast_thread_becomes_is_not_fast_and_has_no_connection(void **state)
{
	(void)state;
	with_daemon(GRANTS, executes);
}

static void closes_everything(void)
{
	expect(set_tek(pthread_self(), 0) == 0);
	expect(close_range(3, UINT_MAX, 0) == 0);
	expect(fast_after(0, false));
	expect(policy_of(pthread_self()) == SCHED_OTHER);
	expect(set_tek(pthread_self(), 0) == 0 && is_fast(0) && fake->connections == 2);
}

static void a_program_that_closes_all_descriptors_loses_what_it_had_and_may_ask_again(void **state)
{
	(void)state;
	with_daemon(GRANTS, closes_everything);
}

static void puts_a_file_there(void)
{
	struct stat status;
	char byte;
	int files[2], fd = 3;

	expect(set_tek(pthread_self(), 0) == 0);
	expect(pipe2(files, O_NONBLOCK) == 0);
	while (fstat(fd, &status) || !S_ISSOCK(status.st_mode))
		fd++;
	expect(fd > 500);
	expect(dup2(files[1], fd) == fd && fast_after(0, false));
	expect(policy_of(pthread_self()) == SCHED_OTHER && tek_critical_enter() == 0);
	expect(is_fast(0) && fake->connections == 2);
	expect(read(files[0], &byte, 1) == -1 && errno == EAGAIN); /* nothing was sent there */
	expect(write(fd, "x", 1) == 1 && read(files[0], &byte, 1) == 1);
}

static void a_file_of_the_programs_own_in_the_connections_place_is_left_alone(void **state)
{
	(void)state;
	with_daemon(GRANTS, puts_a_file_there);
}

static void goes_on_with_another_priority(void)
{
	struct sched_param param;
	int policy;

	expect(set_tek(pthread_self(), 10) == 0 && tek_critical_for(1000000000) == 0);
	expect(kernel_rt_priority(0) == 29 && fake->until_ns != 0);
	for (int i = 0; i < 500 && kernel_rt_priority(0) != 19; i++)
		sleep_ms(10);
	expect(kernel_rt_priority(0) == 19 && is_fast(0));
	expect(pthread_getschedparam(pthread_self(), &policy, &param) == 0);
	expect(policy == SCHED_TEK && param.sched_priority == 10);
	expect(set_other(pthread_self()) == 0 && kernel_policy(0) == SCHED_OTHER);
}

static void a_timed_stay_that_goes_on_has_another_priority_then(void **state)
{
	(void)state;
	with_daemon(GRANTS, goes_on_with_another_priority);
}

enum { MANY = 50 };
static pthread_barrier_t all_there;

static void *ask_with_more_threads(void *result)
{
	int *error = result;

	pthread_barrier_wait(&all_there);
	*error = tek_critical_enter();
	if (!*error && !is_fast(0))
		*error = -1;
	pthread_barrier_wait(&all_there);
	return NULL;
}

static void many_ask(void)
{
	pthread_t threads[MANY];
	int errors[MANY];

	pthread_barrier_init(&all_there, NULL, MANY);
	for (int i = 0; i < MANY; i++)
		expect(pthread_create(&threads[i], NULL, ask_with_more_threads, &errors[i]) == 0);
	for (int i = 0; i < MANY; i++)
		expect(pthread_join(threads[i], NULL) == 0 && errors[i] == 0);
	expect(fake->connections == 1 && asked(TEK_ASK_ENTER) == MANY);
	expect(asked(TEK_ASK_LEAVE) == MANY);
}

static void fifty_threads_that_ask_at_once_are_all_served(void **state)
{
	(void)state;
	with_daemon(GRANTS, many_ask);
}

static void ignore(int signal)
{
	(void)signal;
}

static void is_interrupted(void)
{
	const struct itimerval often = {{0, 500}, {0, 500}}, never = {0};
	struct sigaction action = {.sa_handler = ignore};

	fake->delay_ms = 30;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	errno = 4711;
	int error = tek_critical_enter();
	expect(errno == 4711);
	bool fast = is_fast(0);
	setitimer(ITIMER_REAL, &never, NULL);
	expect(error == 0 && fast);
}

static void signals_do_not_disturb_a_request_and_errno_stays(void **state)
{
	(void)state;
	with_daemon(GRANTS, is_interrupted);
}

static void *ask_while_cancelled(void *result)
{
	int *error = result;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_barrier_wait(&all_there);
	sleep_ms(20);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	*error = tek_critical_enter();
	pthread_testcancel();
	return NULL;
}

static void is_cancelled(void)
{
	pthread_t thread;
	void *result;
	int error = -1;

	pthread_barrier_init(&all_there, NULL, 2);
	expect(pthread_create(&thread, NULL, ask_while_cancelled, &error) == 0);
	pthread_barrier_wait(&all_there);
	pthread_cancel(thread);
	expect(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && error == 0);
	expect(tek_critical_enter() == 0); /* the lock is free */
}

static void a_request_is_no_cancellation_point(void **state)
{
	(void)state;
	with_daemon(GRANTS, is_cancelled);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_child_of_a_fork_is_not_fast_and_has_a_connection_of_its_own),
		cmocka_unit_test(
			a_program_that_a_fast_thread_becomes_is_not_fast_and_has_no_connection),
		cmocka_unit_test(
			a_program_that_closes_all_descriptors_loses_what_it_had_and_may_ask_again),
		cmocka_unit_test(a_file_of_the_programs_own_in_the_connections_place_is_left_alone),
		cmocka_unit_test(a_timed_stay_that_goes_on_has_another_priority_then),
		cmocka_unit_test(fifty_threads_that_ask_at_once_are_all_served),
		cmocka_unit_test(signals_do_not_disturb_a_request_and_errno_stays),
		cmocka_unit_test(a_request_is_no_cancellation_point),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
