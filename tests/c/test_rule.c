/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* TEK_RULES: the meaning of rules, and refused rules. */
#include "support.h"

#include "mediate/rule.h"

static struct tek_rules rules;

static void a_rule_is_what_it_matches_and_what_it_sets(void **state)
{
	const struct tek_rule *rule = rules.rule;

	(void)state;
	assert_null(tek__rules_parse(
		&rules, "program=fri*,thread=gas*,role-is=G*,function=_ZL3gas*,role=gas detection,"
			"group=urgent,critical=1,mark=0,priority=-5,budget=200ms/1s,source=f:1;"
			"thread=b,budget=off"));
	assert_int_equal(rules.count, 2);
	assert_string_equal(rule->program, "fri*");
	assert_string_equal(rule->thread, "gas*");
	assert_string_equal(rule->role_is, "G*");
	assert_string_equal(rule->function, "_ZL3gas*");
	assert_string_equal(rule->role, "gas detection");
	assert_int_equal(rule->sets, (1 << TEK_SETTINGS) - 1);
	assert_int_equal(rule->group, TEK_URGENT);
	assert_true(rule->critical);
	assert_false(rule->mark);
	assert_int_equal(rule->priority, -5);
	assert_true(rule->budget.cpu_ns == 200000000 && rule->budget.window_ns == 1000000000);
	assert_int_equal(rule[1].sets, 1 << TEK_SET_BUDGET);
	assert_true(rule[1].budget.cpu_ns == 0);
}

static void what_separates_can_be_escaped(void **state)
{
	(void)state;
	assert_null(tek__rules_parse(&rules, "thread=a%2cb%3B%25=,role=k%C3%A4se,source=%zz=:"));
	assert_string_equal(rules.rule[0].thread, "a,b;%=");
	assert_string_equal(rules.rule[0].role, "k\303\244se");
}

static void no_text_is_no_rule(void **state)
{
	(void)state;
	assert_null(tek__rules_parse(&rules, ""));
	assert_int_equal(rules.count, 0);
}

static void what_is_not_understood_is_refused_whole(void **state)
{
	static const char *const bad[] = {
		";",
		"x",
		"thread",
		"thread=",
		"thread=a",
		"mark=1",
		"source=f:1,mark=1",
		"thread=a,mark=",
		"thread=a,mark=2",
		"thread=a,mark=11",
		"thread=a,mark=1,",
		"thread=a,,mark=1",
		"thread=a,mark=1,mark=1",
		"thread=a,colour=1",
		"thread=a,critical=yes",
		"thread=a,group=Normal",
		"thread=a,group=normally",
		"thread=a,priority=20",
		"thread=a,priority=+1",
		"thread=a,budget=2s/1s",
		"thread=a,budget=offf",
		"thread=%,mark=1",
		"thread=%4,mark=1",
		"thread=%4g,mark=1",
		"thread=%00,mark=1",
		"thread=%0a,mark=1",
		"thread=a\n,mark=1",
		"thread=a,mark=1;;thread=b,mark=1",
		"thread=a,role=%ff",
		"thread=a,role=0123456789012345678901234567890123456789012345678901234567890123",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		rules.count = 7;
		assert_non_null(tek__rules_parse(&rules, bad[i]));
		assert_int_equal(rules.count, 7);
	}
}

static void the_first_rule_that_is_not_understood_is_shown(void **state)
{
	(void)state;
	assert_string_equal(tek__rules_parse(&rules, "thread=a,mark=1;thread=b,mrak=1;thread=c"),
			    "thread=b,mrak=1;thread=c");
	assert_string_equal(tek__rules_parse(&rules, "thread=a,mark=1;"), "");
}

static void there_are_64_rules_at_most(void **state)
{
	static const char rule[] = "thread=a,mark=1;";
	char many[(TEK_MAX_RULES + 1) * sizeof(rule)] = "";

	(void)state;
	for (int i = 0; i <= TEK_MAX_RULES; i++)
		strcat(many, rule);
	many[(TEK_MAX_RULES + 1) * strlen(rule) - 1] = '\0';
	assert_string_equal(tek__rules_parse(&rules, many), "thread=a,mark=1");
	many[TEK_MAX_RULES * strlen(rule) - 1] = '\0';
	assert_null(tek__rules_parse(&rules, many));
	assert_int_equal(rules.count, TEK_MAX_RULES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rule_is_what_it_matches_and_what_it_sets),
		cmocka_unit_test(what_separates_can_be_escaped),
		cmocka_unit_test(no_text_is_no_rule),
		cmocka_unit_test(what_is_not_understood_is_refused_whole),
		cmocka_unit_test(the_first_rule_that_is_not_understood_is_shown),
		cmocka_unit_test(there_are_64_rules_at_most),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
