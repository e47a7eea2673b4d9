/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * SCHED_TEK by sched_setattr(), which the C library has since version 2.41; before that it is a
 * system call by our name.
 */
#include "support.h"

#include "base/sched_attr.h"

#include <sys/mman.h>

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

static void sched_getattr_returns_what_was_asked_for_and_not_what_the_kernel_has(void **state)
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

static void a_policy_that_was_set_past_tek_is_reported_and_stays(void **state)
{
	static const struct tek_sched_attr set[] = {
		{.policy = SCHED_IDLE},
		{.policy = SCHED_BATCH, .nice = 5},
		{.policy = SCHED_FIFO, .priority = 60},
		{.policy = SCHED_RR, .priority = 60, .flags = TEK_ATTR_RESET_ON_FORK},
	};
	struct sched_param param;

	(void)state;
	need_real_time();
	for (size_t i = 0; i < sizeof(set) / sizeof(set[0]); i++) {
		struct tek_sched_attr attr = set[i];
		const bool flag = attr.flags & TEK_ATTR_RESET_ON_FORK;
		attr.size = sizeof(attr);
		assert_int_equal(tek_critical_enter(), 0);
		assert_int_equal(syscall(SYS_sched_setattr, 0, &attr, 0), 0);
		assert_int_equal(sched_getscheduler(0),
				 (int)attr.policy | (flag ? SCHED_RESET_ON_FORK : 0));
		assert_int_equal(sched_getparam(0, &param), 0);
		assert_int_equal(param.sched_priority, attr.priority);
		assert_int_equal(get_attr(0).policy, attr.policy);
		assert_int_equal(get_attr(0).priority, attr.priority);
		assert_int_equal(get_attr(0).nice, attr.nice);
		assert_int_equal(tek_critical_leave(), 0);
		assert_int_equal(kernel_attr(0).policy, attr.policy);
		assert_int_equal(kernel_attr(0).priority, attr.priority);
		set_other(pthread_self());
		setpriority(PRIO_PROCESS, 0, 0);
	}
}

static void *see_slice(void *slice)
{
	*(uint64_t *)slice = kernel_attr(0).runtime;
	return NULL;
}

static uint64_t *shared_slice;

static int see_slice_in_fork(void)
{
	see_slice(shared_slice);
	return 0;
}

static void a_slice_of_its_own_is_given_back_and_inherited(void **state)
{
	enum { OWN_NS = 5 * 1000 * 1000 };
	struct tek_sched_attr own = {.policy = SCHED_OTHER, .runtime = OWN_NS};
	const uint64_t usual = kernel_attr(0).runtime;
	uint64_t seen;
	pthread_t thread;

	(void)state;
	need_real_time();
	if (!usual)
		skip(); /* before Linux 6.12 there are none */
	shared_slice = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int round = 0; round < 2; round++) {
		const uint64_t wanted = round ? usual : OWN_NS;
		assert_int_equal(set_attr(0, own), 0);
		assert_int_equal(kernel_attr(0).runtime, wanted);
		assert_int_equal(tek_critical_enter(), 0);
		assert_true(is_fast(0));
		assert_int_equal(pthread_create(&thread, NULL, see_slice, &seen), 0);
		pthread_join(thread, NULL);
		assert_int_equal(seen, wanted);
		assert_int_equal(in_child(see_slice_in_fork), 0);
		assert_int_equal(*shared_slice, wanted);
		assert_int_equal(tek_critical_leave(), 0);
		assert_int_equal(kernel_attr(0).runtime, wanted);
		own.runtime = 0;
	}
	munmap(shared_slice, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			sched_setattr_makes_a_thread_fast_and_another_policy_moves_it_back),
		cmocka_unit_test(
			sched_getattr_returns_what_was_asked_for_and_not_what_the_kernel_has),
		cmocka_unit_test(a_thread_in_a_critical_section_reads_and_sets_what_it_gets_back),
		cmocka_unit_test(attributes_that_the_kernel_refuses_change_nothing),
		cmocka_unit_test(a_real_time_policy_is_set_and_read_as_without_tek),
		cmocka_unit_test(a_policy_that_was_set_past_tek_is_reported_and_stays),
		cmocka_unit_test(a_slice_of_its_own_is_given_back_and_inherited),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
