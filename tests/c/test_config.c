/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The environment variables of libtek(7): the meaning of their values, and refused values. */
#include "support.h"

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

static void a_budget_is_cpu_time_in_a_window(void **state)
{
	struct tek_config config = {0};

	(void)state;
	assert_true(tek__config_parse_budget(&config, "800ms/1s"));
	assert_true(config.budget.cpu_ns == 800000000 && config.budget.window_ns == 1000000000);
	assert_true(tek__config_parse_budget(&config, "5000us/50000000ns"));
	assert_true(config.budget.cpu_ns == 5000000 && config.budget.window_ns == 50000000);
	assert_true(tek__config_parse_budget(&config, "off"));
	assert_true(config.budget.cpu_ns == 0 && config.budget.window_ns == 50000000);
}

static void a_bad_budget_is_refused(void **state)
{
	static const char *const bad[] = {"",       "800ms",   "800/1s", "1s/800ms",
					  "0ms/1s", "1ms/1ms", "1s/2h",  "1s/4000s",
					  "-1s/2s", "1s/2s ",  "1s//2s", "99999999999999999999s/1s",
					  "1 s/2s"};
	struct tek_config config = {.budget.cpu_ns = 7};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(tek__config_parse_budget(&config, bad[i]));
	assert_true(config.budget.cpu_ns == 7);
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
		cmocka_unit_test(a_budget_is_cpu_time_in_a_window),
		cmocka_unit_test(a_bad_budget_is_refused),
		cmocka_unit_test(a_range_is_two_real_time_priorities),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
