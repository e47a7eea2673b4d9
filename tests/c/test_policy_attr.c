/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * SCHED_TEK by sched_setattr(), which the C library has since version 2.41; before that it is a
 * system call by our name.
 */
#include "support.h"

#include "mediate/sched_attr.h"

struct sched_attr;
int sched_setattr(pid_t tid, struct sched_attr *attr, unsigned int flags);
int sched_getattr(pid_t tid, struct sched_attr *attr, unsigned int size, unsigned int flags);

static int set_attr(pid_t tid, struct tek_sched_attr attr)
{
	attr.size = sizeof(attr);
	return sched_setattr(tid, (struct sched_attr *)&attr, 0);
}

static struct tek_sched_attr get_attr(pid_t tid)
{
	struct tek_sched_attr attr;

	assert_int_equal(sched_getattr(tid, (struct sched_attr *)&attr, sizeof(attr), 0), 0);
	return attr;
}

static struct tek_sched_attr kernel_attr(pid_t tid)
{
	struct tek_sched_attr attr;

	assert_int_equal(syscall(SYS_sched_getattr, tid, &attr, sizeof(attr), 0), 0);
	return attr;
}

static void sched_setattr_makes_a_thread_fast_and_another_policy_moves_it_back(void **state)
{
	(void)state;
	need_real_time();
	assert_int_equal(set_attr(0, (struct tek_sched_attr){.policy = SCHED_TEK}), 0);
	assert_int_equal(kernel_policy(0), SCHED_RR);
	assert_int_equal(kernel_rt_priority(0), 29);
	assert_int_equal(set_attr(0, (struct tek_sched_attr){.policy = SCHED_OTHER}), 0);
	assert_int_equal(kernel_policy(0), SCHED_OTHER);
	assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
}

static void sched_getattr_says_what_was_asked_for_and_not_what_the_kernel_has(void **state)
{
	(void)state;
	need_real_time();
	assert_int_equal(set_attr(0, (struct tek_sched_attr){.policy = SCHED_TEK, .nice = -7}), 0);
	assert_int_equal(get_attr(0).policy, SCHED_TEK);
	assert_int_equal(get_attr(0).nice, -7);
	assert_int_equal(get_attr(0).priority, 0);
	assert_int_equal(get_attr(own_tid()).policy, SCHED_TEK);
	assert_int_equal(kernel_attr(0).policy, SCHED_RR);

	/* The policy stays, with another priority of its own kind. */
	assert_int_equal(
		set_attr(0, (struct tek_sched_attr){.flags = TEK_ATTR_KEEP_POLICY, .nice = 11}), 0);
	assert_int_equal(get_attr(0).policy, SCHED_TEK);
	assert_int_equal(get_attr(0).nice, 11);
	set_other(pthread_self());
	assert_int_equal(get_attr(0).policy, SCHED_OTHER);
}

static void a_thread_in_a_critical_section_reads_and_sets_what_it_gets_back(void **state)
{
	(void)state;
	need_real_time();
	assert_int_equal(tek_critical_enter(), 0);
	assert_true(is_fast(0));
	assert_int_equal(set_attr(0, (struct tek_sched_attr){.policy = SCHED_BATCH, .nice = 5}), 0);
	assert_true(is_fast(0));
	tek_critical_leave();
	assert_int_equal(kernel_policy(0), SCHED_BATCH);
	assert_int_equal(kernel_nice(0), 5);
	assert_int_equal(get_attr(0).policy, SCHED_BATCH);
	assert_int_equal(get_attr(0).nice, 5);
	assert_int_equal(set_attr(0, (struct tek_sched_attr){.policy = SCHED_OTHER}), 0);
}

static void attributes_that_the_kernel_refuses_change_nothing(void **state)
{
	struct tek_sched_attr attr = {.size = 8, .policy = SCHED_TEK};

	(void)state;
	assert_int_equal(set_attr(0, (struct tek_sched_attr){.policy = SCHED_TEK, .nice = 20}), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(set_attr(0, (struct tek_sched_attr){.policy = SCHED_TEK, .priority = 1}),
			 -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(set_attr(-1, (struct tek_sched_attr){.policy = SCHED_OTHER}), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(sched_setattr(0, (struct sched_attr *)&attr, 0), -1);
	assert_int_equal(kernel_policy(0), SCHED_OTHER);

	need_real_time();
	assert_int_equal(set_tek(pthread_self(), 3), 0);
	assert_int_equal(set_attr(0, (struct tek_sched_attr){.policy = SCHED_FIFO}), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(get_attr(0).policy, SCHED_TEK);
	assert_int_equal(get_attr(0).nice, 3);
	set_other(pthread_self());
}

static void a_real_time_policy_is_set_and_read_as_without_tek(void **state)
{
	(void)state;
	need_real_time();
	assert_int_equal(set_attr(0, (struct tek_sched_attr){.policy = SCHED_FIFO,
							     .priority = 3,
							     .flags = TEK_ATTR_RESET_ON_FORK}),
			 0);
	assert_int_equal(kernel_policy(0), SCHED_FIFO);
	assert_true(kernel_reset_on_fork(0));
	assert_int_equal(get_attr(0).priority, 3);
	assert_int_equal(get_attr(0).flags & TEK_ATTR_RESET_ON_FORK, TEK_ATTR_RESET_ON_FORK);
	/* And while the thread is Fast besides. */
	assert_int_equal(tek_critical_enter(), 0);
	assert_int_equal(get_attr(0).policy, SCHED_TEK);
	tek_critical_leave();
	assert_int_equal(kernel_attr(0).policy, SCHED_FIFO);
	assert_int_equal(kernel_attr(0).priority, 3);
	assert_int_equal(set_attr(0, (struct tek_sched_attr){.policy = SCHED_OTHER}), 0);
	assert_false(kernel_reset_on_fork(0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			sched_setattr_makes_a_thread_fast_and_another_policy_moves_it_back),
		cmocka_unit_test(sched_getattr_says_what_was_asked_for_and_not_what_the_kernel_has),
		cmocka_unit_test(a_thread_in_a_critical_section_reads_and_sets_what_it_gets_back),
		cmocka_unit_test(attributes_that_the_kernel_refuses_change_nothing),
		cmocka_unit_test(a_real_time_policy_is_set_and_read_as_without_tek),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
