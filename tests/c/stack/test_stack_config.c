/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The valid values of TEK_STACK. */
#include "vectors.h"

#include "stack/config.h"

static const struct tek_stack_config defaults = {
	.low_percent = 25, .high_percent = 80, .period_ms = 1000};

static void everything_can_be_set_at_once(void **state)
{
	struct tek_stack_config config = defaults;

	(void)state;
	assert_true(tek__stack_config_parse(
		&config,
		"auto,override,grow,exact,low=10,high=90,margin=200,floor=65536,period=5"));
	assert_int_equal(config.mode, TEK_STACK_MODE_AUTO);
	assert_true(config.override);
	assert_true(config.grow);
	assert_true(config.exact);
	assert_int_equal(config.low_percent, 10);
	assert_int_equal(config.high_percent, 90);
	assert_int_equal(config.margin_percent, 200);
	assert_int_equal(config.floor_bytes, 65536);
	assert_int_equal(config.period_ms, 5);
}

static void what_is_not_set_stays(void **state)
{
	struct tek_stack_config config = defaults;

	(void)state;
	assert_true(tek__stack_config_parse(&config, "report"));
	assert_int_equal(config.mode, TEK_STACK_MODE_REPORT);
	assert_false(config.override);
	assert_int_equal(config.low_percent, 25);
	assert_int_equal(config.high_percent, 80);
	assert_int_equal(config.period_ms, 1000);
	assert_true(tek__stack_config_parse(&config, "period=0"));
	assert_int_equal(config.mode, TEK_STACK_MODE_REPORT);
	assert_int_equal(config.period_ms, 0);
}

static void the_last_word_counts(void **state)
{
	struct tek_stack_config config = defaults;

	(void)state;
	assert_true(tek__stack_config_parse(&config, "auto,tight,low=1,low=2"));
	assert_int_equal(config.mode, TEK_STACK_MODE_TIGHT);
	assert_int_equal(config.low_percent, 2);
	assert_true(tek__stack_config_parse(&config, "off"));
	assert_int_equal(config.mode, TEK_STACK_MODE_OFF);
}

static void text_that_is_not_wholly_understood_changes_nothing(void **state)
{
	static const char *const texts[] = {
		"",
		",",
		"auto,",
		",auto",
		"auto,,grow",
		"autotight",
		"Auto",
		"auto grow",
		"auto;grow",
		"auto,nonsense",
		"low",
		"low=",
		"low=-1",
		"low=101",
		"high=101",
		"low=81",
		"high=24",
		"low=50,high=49",
		"low=25%",
		"margin=99",
		"margin=10001",
		"margin=1.5",
		"floor=1073741825",
		"floor=64K",
		"period=3600001",
		"period=1s",
		"override=1",
		"auto,low=99999999999999999999",
		"exactly",
		"auto,high=80,x",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct tek_stack_config config = defaults;
		if (tek__stack_config_parse(&config, texts[i]))
			print_error("understood: %s\n", texts[i]);
		assert_memory_equal(&config, &defaults, sizeof(config));
		assert_false(tek__stack_config_parse(&config, texts[i]));
	}
}

static void the_limits_themselves_are_understood(void **state)
{
	struct tek_stack_config config = defaults;

	(void)state;
	assert_true(tek__stack_config_parse(
		&config, "low=0,high=100,margin=100,floor=1073741824,period=3600000"));
	assert_true(tek__stack_config_parse(&config, "low=50,high=50,margin=10000,floor=0"));
	assert_int_equal(config.margin_percent, 10000);
	assert_int_equal(config.floor_bytes, 0);
}

static void check_option(const struct vector *vector)
{
	struct tek_stack_config config = defaults;

	if (!vector_is(vector, "TEK_STACK"))
		return;
	const bool taken = tek__stack_config_parse(&config, vector->words[2]);
	vector_assert(vector, taken == (strcmp(vector->words[1], "refused") != 0));
	const unsigned long long meaning[] = {
		config.mode,        config.override,     config.grow,           config.exact,
		config.low_percent, config.high_percent, config.margin_percent, config.floor_bytes,
	};
	const unsigned int first = strcmp(vector->words[1], "written") == 0 ? 4 : 3;
	for (unsigned int i = first; i < vector->count; i++)
		vector_assert(vector, meaning[i - first] == strtoull(vector->words[i], NULL, 10));
}

static void the_variable_is_read_as_tek_writes_it(void **state)
{
	(void)state;
	for_each_vector("options.txt", check_option);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_can_be_set_at_once),
		cmocka_unit_test(what_is_not_set_stays),
		cmocka_unit_test(the_last_word_counts),
		cmocka_unit_test(text_that_is_not_wholly_understood_changes_nothing),
		cmocka_unit_test(the_limits_themselves_are_understood),
		cmocka_unit_test(the_variable_is_read_as_tek_writes_it),
	};
	return cmocka_run_group_tests_name("stack_config", tests, NULL, NULL);
}
