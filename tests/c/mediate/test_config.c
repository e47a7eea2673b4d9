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
	static const char *const bad[] = {"a,,b", ",a", "a,ui=", "=3,a"};
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

static void check_range(const struct vector *vector)
{
	struct tek_config config = {.rt_low = 3, .rt_high = 4};
	const bool taken = tek__config_parse_range(&config, vector->words[2]);

	vector_assert(vector, taken == (strcmp(vector->words[1], "taken") == 0));
	vector_assert(vector, config.rt_low == (taken ? atoi(vector->words[3]) : 3));
	vector_assert(vector, config.rt_high == (taken ? atoi(vector->words[4]) : 4));
}

static void check_critical(const struct vector *vector)
{
	struct tek_config config = {.critical_count = 7};
	const bool taken = tek__config_parse_critical(&config, vector->words[2]);

	vector_assert(vector, taken == (strcmp(vector->words[1], "refused") != 0));
	vector_assert(vector, config.critical_count == (taken ? 1 : 7));
	if (strcmp(vector->words[1], "taken") != 0)
		return;
	vector_assert(vector, strcmp(config.critical[0].glob, vector->words[3]) == 0);
	vector_assert(vector, config.critical[0].nice == atoi(vector->words[4]));
}

static void check_group(const struct vector *vector)
{
	struct tek_config config = {.group = 7};
	const bool taken = tek__config_parse_group(&config, vector->words[2]);

	vector_assert(vector, taken == (strcmp(vector->words[1], "taken") == 0));
	vector_assert(vector, config.group == (taken ? atoi(vector->words[3]) : 7));
}

static void check_option(const struct vector *vector)
{
	if (vector_is(vector, "TEK_RT_RANGE"))
		check_range(vector);
	else if (vector_is(vector, "TEK_CRITICAL"))
		check_critical(vector);
	else if (vector_is(vector, "TEK_GROUP"))
		check_group(vector);
}

static void options_are_read_as_tek_does(void **state)
{
	(void)state;
	for_each_vector("options.txt", check_option);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(critical_names_are_globs_with_priorities),
		cmocka_unit_test(bad_critical_names_are_refused_whole),
		cmocka_unit_test(budgets_are_read_as_tek_does),
		cmocka_unit_test(without_a_limit_the_window_stays),
		cmocka_unit_test(options_are_read_as_tek_does),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
