/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* SCHED_TEK as a policy: setting, reading back, errors, and what is restored. */
#include "support.h"

#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>

static void setting_sched_tek_makes_a_thread_fast_and_another_policy_moves_it_back(void **state)
{
	(void)state;
	need_real_time();
	assert_int_equal(set_tek(pthread_self(), 0), 0);
	assert_int_equal(kernel_policy(0), SCHED_RR);
	assert_int_equal(kernel_rt_priority(0), 29);
	assert_int_equal(set_other(pthread_self()), 0);
	assert_int_equal(kernel_policy(0), SCHED_OTHER);
	assert_false(kernel_reset_on_fork(0));
}

static void a_lower_nice_value_gives_a_higher_real_time_priority(void **state)
{
	(void)state;
	need_real_time();
	int before = 0;
	for (int nice = TEK_PRIORITY_MAX; nice >= TEK_PRIORITY_MIN; nice--) {
		assert_int_equal(set_tek(pthread_self(), nice), 0);
		assert_true(kernel_rt_priority(0) > before);
		before = kernel_rt_priority(0);
	}
	assert_int_equal(before, 49);
	set_other(pthread_self());
}

static void sched_tek_is_read_back_with_its_priority_while_the_thread_is_fast(void **state)
{
	struct sched_param param;
	int policy;

	(void)state;
	need_real_time();
	assert_int_equal(set_tek(pthread_self(), -7), 0);
	assert_int_equal(pthread_getschedparam(pthread_self(), &policy, &param), 0);
	assert_int_equal(policy, SCHED_TEK);
	assert_int_equal(param.sched_priority, -7);
	assert_int_equal(sched_getscheduler(0), SCHED_TEK);
	assert_int_equal(sched_getparam(0, &param), 0);
	assert_int_equal(param.sched_priority, -7);

	assert_int_equal(pthread_setschedprio(pthread_self(), 11), 0);
	assert_int_equal(sched_getparam(0, &param), 0);
	assert_int_equal(param.sched_priority, 11);

	set_other(pthread_self());
	assert_int_equal(pthread_getschedparam(pthread_self(), &policy, &param), 0);
	assert_int_equal(policy, SCHED_OTHER);
	assert_int_equal(param.sched_priority, 0);
}

static void priorities_of_sched_tek_are_nice_values(void **state)
{
	(void)state;
	assert_int_equal(sched_get_priority_min(SCHED_TEK), -20);
	assert_int_equal(sched_get_priority_max(SCHED_TEK), 19);
	assert_int_equal(sched_get_priority_max(SCHED_RR), 99);
	assert_int_equal(sched_get_priority_max(1234), -1);
}

static void a_priority_outside_the_range_is_einval_and_changes_nothing(void **state)
{
	struct sched_param param = {.sched_priority = 20};

	(void)state;
	assert_int_equal(set_tek(pthread_self(), 20), EINVAL);
	assert_int_equal(set_tek(pthread_self(), -21), EINVAL);
	assert_int_equal(sched_setscheduler(0, SCHED_TEK, &param), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(kernel_policy(0), SCHED_OTHER);

	need_real_time();
	assert_int_equal(set_tek(pthread_self(), 3), 0);
	int priority = kernel_rt_priority(0);
	assert_int_equal(set_tek(pthread_self(), 20), EINVAL);
	assert_int_equal(pthread_setschedprio(pthread_self(), 20), EINVAL);
	assert_int_equal(kernel_rt_priority(0), priority);
	set_other(pthread_self());
}

static void *nothing(void *argument)
{
	return argument;
}

static void *note_tid(void *tid)
{
	__atomic_store_n((pid_t *)tid, own_tid(), __ATOMIC_RELEASE);
	return NULL;
}

static void a_thread_that_has_ended_is_esrch(void **state)
{
	pthread_t thread;
	pid_t tid = 0;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, nothing, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(set_tek(thread, 0), ESRCH);
	assert_int_equal(tek_thread_mark(thread, 1), ESRCH);
	assert_int_equal(tek_thread_set_group(thread, TEK_URGENT), ESRCH);
	/* Ended but not joined: the pthread_t is still valid, the thread is gone. */
	assert_int_equal(pthread_create(&thread, NULL, note_tid, &tid), 0);
	do
		sleep_ms(1);
	while (__atomic_load_n(&tid, __ATOMIC_ACQUIRE) == 0 ||
	       syscall(SYS_tgkill, getpid(), tid, 0) == 0);
	assert_int_equal(set_tek(thread, 0), ESRCH);
	pthread_join(thread, NULL);
}

static void a_thread_of_another_process_is_eperm_and_of_none_esrch(void **state)
{
	const struct sched_param param = {.sched_priority = 0};

	(void)state;
	assert_int_equal(sched_setscheduler(getppid(), SCHED_TEK, &param), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(sched_setscheduler(4194304, SCHED_TEK, &param), -1);
	assert_int_equal(errno, ESRCH);
	assert_int_equal(sched_setscheduler(-1, SCHED_TEK, &param), -1);
	assert_int_equal(errno, EINVAL);
}

static void another_thread_can_be_made_fast_by_pthread_t_and_by_tid(void **state)
{
	const struct sched_param param = {.sched_priority = 5};
	struct waiter waiter;

	(void)state;
	need_real_time();
	waiter_start(&waiter, NULL);
	assert_int_equal(set_tek(waiter.thread, 0), 0);
	assert_true(is_fast(waiter.tid));
	assert_int_equal(set_other(waiter.thread), 0);
	assert_false(is_fast(waiter.tid));
	assert_int_equal(sched_setscheduler(waiter.tid, SCHED_TEK, &param), 0);
	assert_true(is_fast(waiter.tid));
	assert_int_equal(sched_getscheduler(waiter.tid), SCHED_TEK);
	assert_int_equal(sched_setparam(waiter.tid, &(struct sched_param){.sched_priority = -3}),
			 0);
	assert_int_equal(kernel_rt_priority(waiter.tid), 32);
	assert_false(is_fast(0));
	waiter_end(&waiter);
}

static void policy_nice_and_reset_on_fork_flag_come_back_exactly(void **state)
{
	const struct sched_param zero = {.sched_priority = 0};

	(void)state;
	need_real_time();
	static const int policies[] = {SCHED_OTHER, SCHED_BATCH, SCHED_IDLE};
	for (size_t i = 0; i < 3; i++) {
		for (int flag = 0; flag <= 1; flag++) {
			syscall(SYS_sched_setscheduler, 0,
				policies[i] | (flag ? SCHED_RESET_ON_FORK : 0), &zero);
			setpriority(PRIO_PROCESS, 0, 4);
			assert_int_equal(tek_critical_enter(), 0);
			assert_true(is_fast(0));
			assert_int_equal(tek_critical_leave(), 0);
			assert_int_equal(kernel_policy(0), policies[i]);
			assert_int_equal(kernel_reset_on_fork(0), flag);
			assert_int_equal(kernel_nice(0), 4);
		}
	}
	syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &zero);
	setpriority(PRIO_PROCESS, 0, 0);
}

static void a_real_time_thread_gets_its_own_real_time_priority_back(void **state)
{
	const struct sched_param fifo = {.sched_priority = 5};

	(void)state;
	need_real_time();
	syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &fifo);
	assert_int_equal(tek_critical_enter(), 0);
	assert_int_equal(kernel_policy(0), SCHED_RR);
	assert_int_equal(kernel_rt_priority(0), 29);
	assert_int_equal(tek_critical_leave(), 0);
	assert_int_equal(kernel_policy(0), SCHED_FIFO);
	assert_int_equal(kernel_rt_priority(0), 5);
	set_other(pthread_self());
}

static void a_thread_with_a_higher_real_time_priority_keeps_it(void **state)
{
	const struct sched_param fifo = {.sched_priority = 60};

	(void)state;
	need_real_time();
	syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &fifo);
	assert_int_equal(tek_critical_enter(), 0);
	assert_int_equal(sched_getscheduler(0), SCHED_TEK);
	assert_int_equal(kernel_policy(0), SCHED_FIFO);
	assert_int_equal(kernel_rt_priority(0), 60);
	assert_int_equal(tek_critical_leave(), 0);
	assert_int_equal(kernel_policy(0), SCHED_FIFO);
	set_other(pthread_self());
}

static void the_higher_of_its_own_and_the_tek_priority_is_in_force(void **state)
{
	const struct sched_param fifo = {.sched_priority = 30};

	(void)state;
	need_real_time();
	syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &fifo);
	assert_int_equal(set_tek(pthread_self(), 0), 0);
	assert_int_equal(kernel_rt_priority(0), 30);
	assert_int_equal(set_tek(pthread_self(), -20), 0);
	assert_int_equal(kernel_rt_priority(0), 49);
	assert_int_equal(set_tek(pthread_self(), 19), 0);
	assert_int_equal(kernel_rt_priority(0), 30);
	assert_int_equal(kernel_policy(0), SCHED_FIFO);
	set_other(pthread_self());
	assert_int_equal(kernel_policy(0), SCHED_OTHER);
}

static void errno_is_left_alone(void **state)
{
	(void)state;
	errno = 12345;
	tek_check();
	tek_thread_mark(pthread_self(), 0);
	set_tek(pthread_self(), 20);
	if (tek_critical_enter() == 0)
		tek_critical_leave();
	pthread_setname_np(pthread_self(), "errno");
	assert_int_equal(errno, 12345);
}

static void too_many_nested_sections_are_eoverflow(void **state)
{
	(void)state;
	need_real_time();
	for (int i = 0; i < 65535; i++)
		assert_int_equal(tek_critical_enter(), 0);
	assert_int_equal(tek_critical_enter(), EOVERFLOW);
	for (int i = 0; i < 65535; i++)
		assert_int_equal(tek_critical_leave(), 0);
	assert_false(is_fast(0));
}

/* As a user of its own, so that PRIO_USER means this process only. */
static int nice_set_while_fast_in_every_way(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2] = {0};
	const int user = 54321;

	if (setpgid(0, 0))
		return 1;
	if (prctl(PR_SET_KEEPCAPS, 1) || setgroups(0, NULL) || setresuid(user, user, user))
		return 2;
	caps[0].permitted = caps[0].effective = 1u << CAP_SYS_NICE;
	if (syscall(SYS_capset, &header, caps))
		return 3;

	static const int ways[] = {PRIO_PROCESS, PRIO_PGRP, PRIO_USER};
	for (int i = 0; i < 3; i++) {
		if (tek_critical_enter() || setpriority(ways[i], 0, 3 + i))
			return 10 + i;
		if (!is_fast(0) || tek_critical_leave())
			return 20 + i;
		if (kernel_policy(0) != SCHED_OTHER || kernel_nice(0) != 3 + i)
			return 30 + i;
	}
	if (tek_critical_enter() || nice(4) != 9 || tek_critical_leave() || kernel_nice(0) != 9)
		return 40;
	return 0;
}

static void nice_set_for_process_group_or_user_while_fast_is_what_is_restored(void **state)
{
	(void)state;
	need_real_time();
	if (geteuid() != 0) {
		print_message("# needs root\n");
		skip();
	}
	assert_int_equal(in_child(nice_set_while_fast_in_every_way), 0);
}

static void a_policy_set_while_inside_a_critical_section_is_what_is_restored(void **state)
{
	const struct sched_param zero = {.sched_priority = 0};

	(void)state;
	need_real_time();
	assert_int_equal(tek_critical_enter(), 0);
	assert_int_equal(sched_setscheduler(0, SCHED_BATCH, &zero), 0);
	assert_true(is_fast(0));
	assert_int_equal(tek_critical_leave(), 0);
	assert_int_equal(kernel_policy(0), SCHED_BATCH);
	set_other(pthread_self());
}

static void a_policy_set_from_outside_while_fast_stays(void **state)
{
	const struct sched_param zero = {.sched_priority = 0};

	(void)state;
	need_real_time();
	assert_int_equal(tek_critical_enter(), 0);
	syscall(SYS_sched_setscheduler, 0, SCHED_BATCH, &zero); /* as chrt -p would */
	assert_int_equal(tek_critical_leave(), 0);
	assert_int_equal(kernel_policy(0), SCHED_BATCH);
	set_other(pthread_self());
}

static void a_refused_policy_leaves_a_fast_thread_fast(void **state)
{
	const struct sched_param bad = {.sched_priority = 1000};

	(void)state;
	need_real_time();
	assert_int_equal(set_tek(pthread_self(), 0), 0);
	assert_int_equal(pthread_setschedparam(pthread_self(), SCHED_FIFO, &bad), EINVAL);
	assert_true(is_fast(0));
	assert_int_equal(sched_getscheduler(0), SCHED_TEK);
	set_other(pthread_self());
}

static void an_attribute_object_holds_sched_tek_and_can_be_copied(void **state)
{
	struct sched_param param = {.sched_priority = -4};
	pthread_attr_t attr, copy;
	int policy;

	(void)state;
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setschedparam(&attr, &param), EINVAL); /* policy first */
	assert_int_equal(pthread_attr_setschedpolicy(&attr, SCHED_TEK), 0);
	assert_int_equal(pthread_attr_setschedparam(&attr, &param), 0);
	param.sched_priority = 20;
	assert_int_equal(pthread_attr_setschedparam(&attr, &param), EINVAL);
	memcpy(&copy, &attr, sizeof(copy));
	assert_int_equal(pthread_attr_getschedpolicy(&copy, &policy), 0);
	assert_int_equal(pthread_attr_getschedparam(&copy, &param), 0);
	assert_int_equal(policy, SCHED_TEK);
	assert_int_equal(param.sched_priority, -4);

	assert_int_equal(pthread_attr_setschedpolicy(&attr, SCHED_OTHER), 0);
	pthread_attr_getschedparam(&attr, &param);
	assert_int_equal(param.sched_priority, 0);
	assert_int_equal(pthread_attr_setschedpolicy(&attr, 1234), EINVAL);
	pthread_attr_destroy(&attr);
}

static void a_thread_can_be_born_critical(void **state)
{
	const struct sched_param param = {.sched_priority = -20};
	struct waiter waiter;
	pthread_attr_t attr;

	(void)state;
	need_real_time();
	pthread_attr_init(&attr);
	pthread_attr_setschedpolicy(&attr, SCHED_TEK);
	pthread_attr_setschedparam(&attr, &param);
	/* Without PTHREAD_EXPLICIT_SCHED POSIX has the creator's policy inherited. */
	waiter_start(&waiter, &attr);
	assert_false(is_fast(waiter.tid));
	waiter_end(&waiter);

	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	waiter_start(&waiter, &attr);
	assert_int_equal(kernel_policy(waiter.tid), SCHED_RR);
	assert_int_equal(kernel_rt_priority(waiter.tid), 49);
	assert_int_equal(set_other(waiter.thread), 0);
	assert_int_equal(kernel_policy(waiter.tid), SCHED_OTHER);
	waiter_end(&waiter);
	pthread_attr_destroy(&attr);
}

static void an_attribute_with_sched_tek_creates_threads_again_and_again(void **state)
{
	pthread_attr_t attr;

	(void)state;
	need_real_time();
	pthread_attr_init(&attr);
	pthread_attr_setschedpolicy(&attr, SCHED_TEK);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	for (int i = 0; i < 50; i++) {
		struct waiter waiter;
		waiter_start(&waiter, &attr);
		assert_true(is_fast(waiter.tid));
		waiter_end(&waiter);
	}
	pthread_attr_destroy(&attr);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			setting_sched_tek_makes_a_thread_fast_and_another_policy_moves_it_back),
		cmocka_unit_test(a_lower_nice_value_gives_a_higher_real_time_priority),
		cmocka_unit_test(sched_tek_is_read_back_with_its_priority_while_the_thread_is_fast),
		cmocka_unit_test(priorities_of_sched_tek_are_nice_values),
		cmocka_unit_test(a_priority_outside_the_range_is_einval_and_changes_nothing),
		cmocka_unit_test(a_thread_that_has_ended_is_esrch),
		cmocka_unit_test(a_thread_of_another_process_is_eperm_and_of_none_esrch),
		cmocka_unit_test(another_thread_can_be_made_fast_by_pthread_t_and_by_tid),
		cmocka_unit_test(policy_nice_and_reset_on_fork_flag_come_back_exactly),
		cmocka_unit_test(a_real_time_thread_gets_its_own_real_time_priority_back),
		cmocka_unit_test(a_thread_with_a_higher_real_time_priority_keeps_it),
		cmocka_unit_test(the_higher_of_its_own_and_the_tek_priority_is_in_force),
		cmocka_unit_test(errno_is_left_alone),
		cmocka_unit_test(too_many_nested_sections_are_eoverflow),
		cmocka_unit_test(nice_set_for_process_group_or_user_while_fast_is_what_is_restored),
		cmocka_unit_test(a_policy_set_while_inside_a_critical_section_is_what_is_restored),
		cmocka_unit_test(a_policy_set_from_outside_while_fast_stays),
		cmocka_unit_test(a_refused_policy_leaves_a_fast_thread_fast),
		cmocka_unit_test(an_attribute_object_holds_sched_tek_and_can_be_copied),
		cmocka_unit_test(a_thread_can_be_born_critical),
		cmocka_unit_test(an_attribute_with_sched_tek_creates_threads_again_and_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
