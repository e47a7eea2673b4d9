/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Beside lifts that begin and end all the time each thread keeps, and hands on, its own policy. */
#include "inherit_support.h"

#include <spawn.h>
#include <sys/wait.h>

/* The policy of the thread that is lifted again and again: below every priority of a lift. */
enum { OWN_PRIORITY = 3, ROUNDS = 300 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned int asked, served;
static _Atomic bool is_over;

/* Waits for the mutex each time that it is asked to. */
static void *wait_as_fast(void *unused)
{
	(void)unused;
	set_tek(pthread_self(), 0);
	while (!is_over) {
		if (served == asked) {
			sleep_ms(1);
			continue;
		}
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
		served++;
	}
	return NULL;
}

static void own(pid_t tid, int priority)
{
	const struct sched_param param = {.sched_priority = priority};

	assert_int_equal(sched_setscheduler(tid, SCHED_FIFO, &param), 0);
}

static bool has_own(pid_t tid, int priority)
{
	return kernel_policy(tid) == SCHED_FIFO && kernel_rt_priority(tid) == priority &&
	       !kernel_reset_on_fork(tid);
}

/* A lift that began while its thread unlocked ends with the wait, a moment later. */
static bool gets_own(pid_t tid, int priority)
{
	for (int ms = 0; ms < PATIENCE_MS; ms++) {
		if (has_own(tid, priority))
			return true;
		sleep_ms(1);
	}
	return false;
}

enum report { NO_REPORT, OWN, NOT_OWN };

/* The policy with which a child began. */
static void *report_policy(void *report)
{
	*(_Atomic int *)report = has_own(own_tid(), OWN_PRIORITY) ? OWN : NOT_OWN;
	return NULL;
}

static bool thread_begins_with_own(void)
{
	pthread_t thread;
	_Atomic int report = NO_REPORT;

	assert_int_equal(pthread_create(&thread, NULL, report_policy, &report), 0);
	/* While this thread joins it, it is lifted, too. */
	while (report == NO_REPORT)
		sleep_ms(1);
	pthread_join(thread, NULL);
	return report == OWN;
}

static bool exits_with_0(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status == 0;
}

static bool process_begins_with_own(void)
{
	const pid_t pid = fork();

	if (pid == 0)
		_exit(!has_own(own_tid(), OWN_PRIORITY));
	return exits_with_0(pid);
}

static bool program_begins_with_own(void)
{
	/* Its policy is in field 41 of proc_pid_stat(5). */
	static char script[] = "read -r line </proc/$$/stat; set -- $line; [ ${41} = 1 ]";
	char *const arguments[] = {"sh", "-c", script, NULL};
	pid_t pid;

	assert_int_equal(posix_spawn(&pid, "/bin/sh", NULL, NULL, arguments, environ), 0);
	return exits_with_0(pid);
}

/* So many rounds in which the caller makes a child while a lift of it begins or ends. */
static int count_wrong(bool (*begins_with_own)(void), int rounds)
{
	pthread_t waiter;
	int wrong = 0;

	is_over = false;
	own(0, OWN_PRIORITY);
	assert_int_equal(pthread_create(&waiter, NULL, wait_as_fast, NULL), 0);
	for (int i = 0; i < rounds; i++) {
		pthread_mutex_lock(&mutex);
		asked++;
		wrong += !begins_with_own();
		pthread_mutex_unlock(&mutex);
		wrong += !gets_own(own_tid(), OWN_PRIORITY);
	}
	is_over = true;
	pthread_join(waiter, NULL);
	assert_int_equal(set_other(pthread_self()), 0);
	return wrong;
}

static void threads_begin_with_the_own_policy_of_a_lifted_creator(void **state)
{
	(void)state;
	need_real_time();
	assert_int_equal(count_wrong(thread_begins_with_own, ROUNDS), 0);
}

static void processes_begin_with_the_own_policy_of_a_lifted_parent(void **state)
{
	(void)state;
	need_real_time();
	assert_int_equal(count_wrong(process_begins_with_own, ROUNDS), 0);
}

static void programs_begin_with_the_own_policy_of_a_lifted_parent(void **state)
{
	(void)state;
	need_real_time();
	assert_int_equal(count_wrong(program_begins_with_own, ROUNDS / 10), 0);
}

static void a_policy_that_is_set_while_a_lift_begins_stays(void **state)
{
	(void)state;
	need_real_time();
	pthread_t waiter;
	int wrong = 0;

	is_over = false;
	assert_int_equal(pthread_create(&waiter, NULL, wait_as_fast, NULL), 0);
	for (int i = 0; i < 10 * ROUNDS; i++) {
		const struct sched_param param = {.sched_priority = OWN_PRIORITY + i % 2};
		pthread_mutex_lock(&mutex);
		const unsigned int before = asked++;
		/* Sometimes before the lift, sometimes after it. */
		for (int spin = 0; spin < i % 64 * 16 && served == before; spin++)
			;
		pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
		pthread_mutex_unlock(&mutex);
		wrong += !gets_own(own_tid(), param.sched_priority);
	}
	is_over = true;
	pthread_join(waiter, NULL);
	assert_int_equal(set_other(pthread_self()), 0);
	assert_int_equal(wrong, 0);
}

/* ---- threads that end while they are lifted ---- */

static void *stay_a_while(void *unused)
{
	(void)unused;
	sleep_ms(3);
	return NULL;
}

static void *join_as_fast(void *argument)
{
	set_tek(pthread_self(), 0);
	assert_int_equal(pthread_join(*(pthread_t *)argument, NULL), 0);
	return NULL;
}

static void threads_that_end_while_they_are_lifted_leave_no_trace(void **state)
{
	(void)state;
	need_real_time();
	enum { PAIRS = 4 };
	pthread_t joined[PAIRS], joiner[PAIRS];

	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < PAIRS; i++) {
			pthread_create(&joined[i], NULL, stay_a_while, NULL);
			pthread_create(&joiner[i], NULL, join_as_fast, &joined[i]);
		}
		for (int i = 0; i < PAIRS; i++)
			pthread_join(joiner[i], NULL);
		assert_false(is_fast(own_tid()));
	}
	/* The list of lifted threads is whole: new ones can be lifted, and end. */
	assert_int_equal(count_wrong(thread_begins_with_own, 10), 0);
}

/* ---- a thread that has not begun ---- */

static void *report_lift(void *was_lifted)
{
	*(bool *)was_lifted = is_fast(own_tid());
	return NULL;
}

/* On one CPU a new thread begins when its creator, which is real-time, waits for it. */
static void a_thread_that_has_not_begun_is_lifted_while_a_fast_one_joins_it(void **state)
{
	(void)state;
	need_real_time();
	const struct sched_param none = {.sched_priority = 0};
	cpu_set_t before, first;
	pthread_attr_t attr;
	pthread_t thread;
	bool was_lifted = false;

	sched_getaffinity(0, sizeof(before), &before);
	CPU_ZERO(&first);
	for (int cpu = 0; CPU_COUNT(&first) == 0; cpu++)
		if (CPU_ISSET(cpu, &before))
			CPU_SET(cpu, &first);
	sched_setaffinity(0, sizeof(first), &first);
	own(0, OWN_PRIORITY);
	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_OTHER);
	pthread_attr_setschedparam(&attr, &none);
	assert_int_equal(pthread_create(&thread, &attr, report_lift, &was_lifted), 0);
	set_tek(pthread_self(), 0);
	pthread_join(thread, NULL);
	assert_int_equal(set_other(pthread_self()), 0);
	sched_setaffinity(0, sizeof(before), &before);
	pthread_attr_destroy(&attr);
	assert_true(was_lifted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_begin_with_the_own_policy_of_a_lifted_creator),
		cmocka_unit_test(processes_begin_with_the_own_policy_of_a_lifted_parent),
		cmocka_unit_test(programs_begin_with_the_own_policy_of_a_lifted_parent),
		cmocka_unit_test(a_policy_that_is_set_while_a_lift_begins_stays),
		cmocka_unit_test(threads_that_end_while_they_are_lifted_leave_no_trace),
		cmocka_unit_test(a_thread_that_has_not_begun_is_lifted_while_a_fast_one_joins_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
