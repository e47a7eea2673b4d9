/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A thread without privilege sets its policy while it has SCHED_RR and a reset-on-fork flag that
 * another process gave it, as tekd does when it lifts a thread by itself.
 */
#include "support.h"

#include "base/sched_attr.h"

#include <linux/capability.h>

struct sched_attr;
int sched_setattr(pid_t tid, struct sched_attr *attr, unsigned int flags);

/* The calling thread gets what tekd lends it, and has no right of its own. */
static bool is_lent_a_policy(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2] = {0};
	const struct sched_param param = {.sched_priority = 10};

	return syscall(SYS_sched_setscheduler, 0, SCHED_RR | SCHED_RESET_ON_FORK, &param) == 0 &&
	       syscall(SYS_capset, &header, caps) == 0;
}

/* What the kernel has, and what the program is told: the policy that was set, without the flag. */
static bool has_set(int policy, int nice_value)
{
	struct sched_param param;
	int reported = -1;

	return kernel_policy(0) == policy && kernel_nice(0) == nice_value &&
	       sched_getscheduler(0) == policy &&
	       pthread_getschedparam(pthread_self(), &reported, &param) == 0 && reported == policy;
}

static int by_handle(void)
{
	const struct sched_param zero = {0};

	if (!is_lent_a_policy())
		return 1;
	if (pthread_setschedparam(pthread_self(), SCHED_BATCH, &zero))
		return 2;
	return has_set(SCHED_BATCH, 0) ? 0 : 3;
}

static int by_tid(void)
{
	const struct sched_param zero = {0};

	if (!is_lent_a_policy())
		return 1;
	if (sched_setscheduler(0, SCHED_OTHER, &zero))
		return 2;
	return has_set(SCHED_OTHER, 0) ? 0 : 3;
}

static int by_attr(void)
{
	struct tek_sched_attr attr = {.size = sizeof(attr), .policy = SCHED_OTHER, .nice = 4};

	if (!is_lent_a_policy())
		return 1;
	if (sched_setattr(0, (struct sched_attr *)&attr, 0))
		return 2;
	if (attr.flags)
		return 3;
	return has_set(SCHED_OTHER, 4) ? 0 : 4;
}

static int by_attributes(void)
{
	const struct tek_attributes attributes = {.policy = SCHED_OTHER, .priority = 5};

	if (!is_lent_a_policy())
		return 1;
	if (tek_tid_set_attributes(own_tid(), TEK_ATTRIBUTE_POLICY, &attributes))
		return 2;
	return has_set(SCHED_OTHER, 5) ? 0 : 3;
}

/* A right that the thread does not have is refused as ever. */
static int by_attributes_above_its_rights(void)
{
	const struct tek_attributes attributes = {.policy = SCHED_OTHER, .priority = -5};

	if (!is_lent_a_policy())
		return 1;
	if (tek_tid_set_attributes(own_tid(), TEK_ATTRIBUTE_POLICY, &attributes) != EPERM)
		return 2;
	return kernel_policy(0) == SCHED_RR ? 0 : 3;
}

static int (*way_of_child)(void);

static void *begin(void *unused)
{
	(void)unused;
	return (void *)(intptr_t)way_of_child();
}

/* TEK knows each thread that a program creates. */
static int in_thread(void)
{
	pthread_t thread;
	void *result = NULL;

	if (pthread_create(&thread, NULL, begin, NULL) || pthread_join(thread, &result))
		return 100;
	return (int)(intptr_t)result;
}

static void check(int (*way)(void))
{
	way_of_child = way;
	need_real_time();
	if (geteuid() != 0) {
		print_message("# needs root\n");
		skip();
	}
	assert_int_equal(in_child(in_thread), 0);
}

static void pthread_setschedparam_sets_it(void **state)
{
	(void)state;
	check(by_handle);
}

static void sched_setscheduler_sets_it(void **state)
{
	(void)state;
	check(by_tid);
}

static void sched_setattr_sets_it(void **state)
{
	(void)state;
	check(by_attr);
}

static void tek_tid_set_attributes_sets_it_with_its_nice_value(void **state)
{
	(void)state;
	check(by_attributes);
}

static void what_the_thread_has_no_right_to_is_refused(void **state)
{
	(void)state;
	check(by_attributes_above_its_rights);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pthread_setschedparam_sets_it),
		cmocka_unit_test(sched_setscheduler_sets_it),
		cmocka_unit_test(sched_setattr_sets_it),
		cmocka_unit_test(tek_tid_set_attributes_sets_it_with_its_nice_value),
		cmocka_unit_test(what_the_thread_has_no_right_to_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
