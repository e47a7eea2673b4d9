/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Places that create threads: when their kinds are known well enough to be sampled only. */
#include "kinds_support.h"

static void sites_differ_by_function_and_caller(void **state)
{
	struct tek_thread a = made_up(0x1000, 0x10), b = made_up(0x1000, 0x20),
			  c = made_up(0x2000, 0x10), nobody = made_up(0, 0);

	(void)state;
	unsigned short site = tek__site_of(&a);
	assert_int_not_equal(site, 0);
	assert_int_equal(tek__site_of(&a), site);
	assert_int_not_equal(tek__site_of(&b), site);
	assert_int_not_equal(tek__site_of(&c), site);
	assert_int_not_equal(tek__site_of(&c), tek__site_of(&b));
	assert_int_equal(tek__site_of(&nobody), 0);
	assert_true(tek__site_wants_measure(0));
}

static void a_site_settles_and_is_sampled_then(void **state)
{
	(void)state;
	for (int i = 0; i < 16; i++)
		assert_true(measure(0x3000, 1000));
	unsigned int wanted = 0;
	for (int i = 0; i < 64; i++)
		wanted += measure(0x3000, 1000);
	assert_int_equal(wanted, 4);
	/* One that uses more unsettles it for eight more. */
	while (!measure(0x3000, 2000))
		;
	for (int i = 0; i < 8; i++)
		assert_true(measure(0x3000, 1500));
	assert_false(measure(0x3000, 1500));
}

static void a_site_whose_bound_still_grows_does_not_settle(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 40; i++)
		assert_true(measure(0x4000, 1000 + i));
}

/* The threads of a process that are measured: one of the first, of 2, 4 and 8, then of each 16. */
static const unsigned int sampled[] = {1, 3, 5, 13, 21, 37, 53};

static unsigned int count_wrong_samples(bool phase_is_known)
{
	unsigned int wrong = 0, measured = 0;

	for (unsigned int number = 1; number < 64; number++) {
		bool expected = false;
		for (size_t i = 0; i < sizeof(sampled) / sizeof(sampled[0]); i++)
			expected |= sampled[i] == number;
		bool is = measure((uintptr_t)settled, 1000);
		wrong += is != expected;
		measured += is;
	}
	return phase_is_known ? wrong : measured != 7;
}

static void a_settled_site_is_sampled_from_the_first_thread_of_a_process_on(void **state)
{
	int status;

	(void)state;
	need_tuner();
	assert_int_equal(count_wrong_samples(true), 0);
	/* The child of a fork is a process, too, with a sample sequence of its own. */
	give_lock(NULL);
	pid_t child = fork();
	if (child == 0) {
		take_lock(NULL);
		_exit((int)count_wrong_samples(false));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	take_lock(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MADE_UP(sites_differ_by_function_and_caller),
		MADE_UP(a_site_settles_and_is_sampled_then),
		MADE_UP(a_settled_site_is_sampled_from_the_first_thread_of_a_process_on),
		MADE_UP(a_site_whose_bound_still_grows_does_not_settle),
	};

	if (!has_profile())
		return run_with_profile(print_kinds);
	return cmocka_run_group_tests_name("stack_sites", tests, NULL, NULL);
}
