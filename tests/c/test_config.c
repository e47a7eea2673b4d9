/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The environment variables of libtek(7): the meaning of their values, and refused values. */
#include "vectors.h"

#include "mediate/config.h"

static void critical_names_are_globs_with_priorities(void **state)
{
	struct tek_config config = {0};

	(void)state;
	assert_true(tek__config_parse_critical(&config, "ui*,render=-5,a b:c=19"));
	assert_int_equal(config.critical_count, 3);
	assert_string_equal(config.critical[0].glob, "ui*");
	assert_int_equal(config.critical[0].nice, 0);
	assert_string_equal(config.critical[1].glob, "render");
	assert_int_equal(config.critical[1].nice, -5);
	assert_string_equal(config.critical[2].glob, "a b:c");
	assert_int_equal(config.critical[2].nice, 19);
}

static void bad_critical_names_are_refused_whole(void **state)
{
	static const char *const bad[] = {
		"=3",
		"ui=",
		"ui=20",
		"ui=-21",
		"ui=x",
		"ui=1x",
		"a,,b",
		",a",
		"ui=--1",
		"ui=-",
		"ui= 1",
		"ui=+1",
		"ui=999999999999999999999",
		"0123456789012345678901234567890123456789012345678901234567890123",
	};
	struct tek_config config = {.critical_count = 7};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(tek__config_parse_critical(&config, bad[i]));
	assert_int_equal(config.critical_count, 7);

	char many[2 * (TEK_MAX_CRITICAL + 1) + 1] = "";
	for (int i = 0; i <= TEK_MAX_CRITICAL; i++)
		strcat(many, i ? ",a" : "a");
	assert_false(tek__config_parse_critical(&config, many));
}

static void check_budget(const struct vector *vector)
{
	struct tek_config config = {.budget = {.cpu_ns = 7, .window_ns = 8}};
	const bool taken = tek__config_parse_budget(&config, vector->words[1]);

	vector_assert(vector, taken == vector_is(vector, "taken"));
	if (!taken) {
		vector_assert(vector, config.budget.cpu_ns == 7 && config.budget.window_ns == 8);
		return;
	}
	vector_assert(vector, config.budget.cpu_ns == strtoull(vector->words[2], NULL, 10));
	if (config.budget.cpu_ns)
		vector_assert(vector,
			      config.budget.window_ns == strtoull(vector->words[3], NULL, 10));
}

static void budgets_are_read_as_tek_does(void **state)
{
	(void)state;
	for_each_vector("budgets.txt", check_budget);
}

static void without_a_limit_the_window_stays(void **state)
{
	struct tek_config config = {.budget = {.cpu_ns = 7, .window_ns = 50000000}};

	(void)state;
	assert_true(tek__config_parse_budget(&config, "off"));
	assert_true(config.budget.cpu_ns == 0 && config.budget.window_ns == 50000000);
}

static void a_range_is_two_real_time_priorities(void **state)
{
	static const char *const bad[] = {"", "10", "0-5", "5-99", "9-8", "1-", "-1-5", "1-5x"};
	struct tek_config config = {0};

	(void)state;
	assert_true(tek__config_parse_range(&config, "1-98"));
	assert_int_equal(config.rt_low, 1);
	assert_int_equal(config.rt_high, 98);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(tek__config_parse_range(&config, bad[i]));
	assert_int_equal(config.rt_high, 98);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(critical_names_are_globs_with_priorities),
		cmocka_unit_test(bad_critical_names_are_refused_whole),
		cmocka_unit_test(budgets_are_read_as_tek_does),
		cmocka_unit_test(without_a_limit_the_window_stays),
		cmocka_unit_test(a_range_is_two_real_time_priorities),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
