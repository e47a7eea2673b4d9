/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads of rtfifo are SCHED_FIFO on their CPUs; they are as before where TEK stands down. */
#include "life/confine.h"
#include "patience.h"
#include "place_support.h"

#include "base/real.h"

#include <grp.h>
#include <semaphore.h>

static void *report_policy(void *unused)
{
	(void)unused;
	const int reset = kernel_reset_on_fork(0) ? 1000 : 0;
	return (void *)(intptr_t)(kernel_policy(0) * 100 + kernel_rt_priority(0) + reset);
}

static int with_fifo(void)
{
	const int ours = 1000 + SCHED_FIFO * 100 + 3;
	const struct sched_param param = {.sched_priority = 5};
	pthread_attr_t attr;

	limit_to(60);
	begin("rtfifo=3,");
	if ((int)(intptr_t)report_policy(NULL) != ours || reported_by(report_policy, NULL) != ours)
		return 1;
	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_RR);
	pthread_attr_setschedparam(&attr, &param);
	return reported_by(report_policy, &attr) == SCHED_RR * 100 + 5 ? 0 : 2;
}

static void with_rtfifo_all_are_sched_fifo_but_those_with_a_policy_of_their_own(void **state)
{
	(void)state;
	need_fifo();
	assert_int_equal(in_child(with_fifo), 0);
}

static pthread_barrier_t moment;
static int other_cpu, other_policy;

/* Reports its CPU and its policy after TEK has stood down. */
static void *wait_and_report(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&moment);
	pthread_barrier_wait(&moment);
	other_cpu = only_cpu();
	other_policy = kernel_policy(0);
	return NULL;
}

static int stand_down(const char *more)
{
	pthread_t thread;

	if (!freopen("/dev/null", "w", stderr))
		return 2;
	begin(more);
	pthread_barrier_init(&moment, NULL, 2);
	if (pthread_create(&thread, NULL, wait_and_report, NULL))
		return 3;
	pthread_barrier_wait(&moment);
	tek__confine("openat");
	pthread_barrier_wait(&moment);
	pthread_join(thread, NULL);
	if (only_cpu() != -1 || kernel_policy(0) != SCHED_OTHER)
		return 4;
	if (other_cpu != -1 || other_policy != SCHED_OTHER)
		return 5;
	return reported_by(report_cpu, NULL) != -1 ||
	       reported_by(report_policy, NULL) != SCHED_OTHER * 100;
}

static int stand_down_placed(void)
{
	return stand_down("");
}

static int stand_down_fifo(void)
{
	return stand_down("rtfifo=3,");
}

static void where_tek_stands_down_threads_are_what_they_were_without_it(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(stand_down_placed), 0);
	need_fifo();
	assert_int_equal(in_child(stand_down_fifo), 0);
}

static void *(*late_routine)(void *);
static sem_t begins;

/* A thread that gets no CPU until TEK has stood down. */
static void *begin_late(void *argument)
{
	while (sem_wait(&begins))
		;
	return late_routine(argument);
}

static int (*create_at_once)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static int create_late(pthread_t *handle, const pthread_attr_t *attr, void *(*routine)(void *),
		       void *argument)
{
	late_routine = routine;
	int error = create_at_once(handle, attr, begin_late, argument);
	tek__confine("openat");
	sem_post(&begins);
	return error;
}

static int stand_down_while_a_thread_starts(void)
{
	if (!freopen("/dev/null", "w", stderr))
		return 2;
	begin("");
	sem_init(&begins, 0, 0);
	create_at_once = tek__real.pthread_create;
	tek__real.pthread_create = create_late;
	return reported_by(report_cpu, NULL) == -1 ? 0 : 3;
}

static void a_thread_that_starts_while_tek_stands_down_may_run_everywhere(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(stand_down_while_a_thread_starts), 0);
}

static int critical_and_back(void)
{
	begin("rtfifo=3,");
	if (tek_critical_enter() || !is_fast(0) || reported_by(report_policy, NULL) != 1103 ||
	    tek_critical_leave())
		return 1;
	return (int)(intptr_t)report_policy(NULL) == 1103 ? 0 : 2;
}

static void a_thread_that_leaves_the_fast_region_is_sched_fifo_again(void **state)
{
	(void)state;
	need_fifo();
	assert_int_equal(in_child(critical_and_back), 0);
}

static int without_privilege(void)
{
	const struct rlimit none = {0, 0};

	if (setrlimit(RLIMIT_RTPRIO, &none) ||
	    (geteuid() == 0 && (setgroups(0, NULL) || setuid(65534))))
		return 2;
	if (!freopen("/dev/null", "w", stderr))
		return 3;
	begin("rtfifo,");
	return only_cpu() != (int)cpus[0] || reported_by(report_cpu, NULL) != (int)cpus[1] ||
	       reported_by(report_policy, NULL) != SCHED_OTHER * 100;
}

static void where_real_time_is_not_allowed_threads_keep_to_their_cpus_all_the_same(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(without_privilege), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			with_rtfifo_all_are_sched_fifo_but_those_with_a_policy_of_their_own),
		cmocka_unit_test(where_tek_stands_down_threads_are_what_they_were_without_it),
		cmocka_unit_test(a_thread_that_starts_while_tek_stands_down_may_run_everywhere),
		cmocka_unit_test(a_thread_that_leaves_the_fast_region_is_sched_fifo_again),
		cmocka_unit_test(
			where_real_time_is_not_allowed_threads_keep_to_their_cpus_all_the_same),
	};
	return cmocka_run_group_tests_name("place_fifo", tests, NULL, NULL);
}
