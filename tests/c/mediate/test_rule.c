/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* TEK_RULES: the meaning of rules, and refused rules. */
#include "vectors.h"

#include "mediate/decide.h"

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

/* Text that grows. */
struct written {
	char text[1024];
	size_t length;
};

static void add(struct written *written, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	written->length += (size_t)vsnprintf(written->text + written->length,
					     sizeof(written->text) - written->length, format,
					     arguments);
	va_end(arguments);
	assert_true(written->length < sizeof(written->text));
}

static void add_field(struct written *written, const char *name, const char *value)
{
	if (!value[0])
		return;
	add(written,
	    "%s%s=", written->length && !strchr(";", written->text[written->length - 1]) ? "," : "",
	    name);
	for (; *value; value++)
		if (*value & 0x80 || strchr("%,;", *value))
			add(written, "%%%02X", (unsigned char)*value);
		else
			add(written, "%c", *value);
}

/* In the largest unit that needs no fraction. */
static void show_duration(char *text, size_t size, uint64_t ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"s", 1000000000}, {"ms", 1000000}, {"us", 1000}, {"ns", 1}};
	size_t unit = 0;

	while (ns % units[unit].ns)
		unit++;
	snprintf(text, size, "%llu%s", (unsigned long long)(ns / units[unit].ns), units[unit].name);
}

/* A setting as TEK_RULES has it. */
static const char *show_setting(const struct tek_rule *rule, int setting)
{
	static const char *const groups[] = {
		[TEK_GROUP_NORMAL] = "normal",
		[TEK_GROUP_URGENT] = "urgent",
		[TEK_GROUP_SERVICE] = "service",
		[TEK_GROUP_BACKGROUND] = "background",
	};
	static char text[64];
	char cpu[24], window[24];

	switch (setting) {
	case TEK_SET_ROLE:
		return rule->role;
	case TEK_SET_GROUP:
		return groups[rule->group];
	case TEK_SET_CRITICAL:
		return rule->critical ? "1" : "0";
	case TEK_SET_MARK:
		return rule->mark ? "1" : "0";
	case TEK_SET_PRIORITY:
		snprintf(text, sizeof(text), "%d", rule->priority);
		return text;
	default:
		if (rule->budget.cpu_ns == 0)
			return "off";
		show_duration(cpu, sizeof(cpu), rule->budget.cpu_ns);
		show_duration(window, sizeof(window), rule->budget.window_ns);
		snprintf(text, sizeof(text), "%s/%s", cpu, window);
		return text;
	}
}

static const char *const setting_names[TEK_SETTINGS] = {
	[TEK_SET_ROLE] = "role", [TEK_SET_GROUP] = "group",       [TEK_SET_CRITICAL] = "critical",
	[TEK_SET_MARK] = "mark", [TEK_SET_PRIORITY] = "priority", [TEK_SET_BUDGET] = "budget",
};

/* The rules as tek writes them, without their sources. */
static struct written write_rules(void)
{
	struct written written = {0};

	for (unsigned int i = 0; i < rules.count; i++) {
		const struct tek_rule *rule = &rules.rule[i];
		if (i > 0)
			add(&written, ";");
		add_field(&written, "program", rule->program);
		add_field(&written, "thread", rule->thread);
		add_field(&written, "role-is", rule->role_is);
		add_field(&written, "function", rule->function);
		for (int setting = 0; setting < TEK_SETTINGS; setting++)
			if (rule->sets & 1 << setting)
				add_field(&written, setting_names[setting],
					  show_setting(rule, setting));
	}
	return written;
}

static void check_rules(const struct vector *vector)
{
	const bool refused = vector_is(vector, "refused");
	const char *text = vector->words[refused ? 2 : 1];

	rules.count = 7;
	const char *bad = tek__rules_parse(&rules, text);
	if (!refused) {
		vector_assert(vector, !bad);
		if (vector_is(vector, "taken") && strcmp(write_rules().text, vector->words[2]) != 0)
			vector_fail(vector, "it is %s", write_rules().text);
		return;
	}
	vector_assert(vector, bad && rules.count == 7);
	unsigned int number = 1;
	for (const char *at = text; at < bad; at++)
		number += *at == ';';
	vector_assert(vector, number == strtoul(vector->words[1], NULL, 10));
}

static void rules_are_taken_and_refused_as_tek_does(void **state)
{
	(void)state;
	for_each_vector("rules.txt", check_rules);
}

static struct written show_decision(const struct tek_decision *decision)
{
	struct written written = {0};

	for (int setting = 0; setting < TEK_SETTINGS; setting++) {
		const struct tek_rule *rule = decision->by[setting];
		if (rule)
			add(&written, "%s%s=%s@%d", written.length ? " " : "",
			    setting_names[setting], show_setting(rule, setting),
			    (int)(rule - rules.rule) + 1);
	}
	return written;
}

static void check_decision(const struct vector *vector)
{
	struct written expected = {0};

	if (vector_is(vector, "rules")) {
		vector_assert(vector, !tek__rules_parse(&rules, vector->words[1]));
		return;
	}
	vector_assert(vector, vector_is(vector, "thread") && vector->count >= 5);
	const uint64_t with_function = tek__decide_with_function(&rules);
	const uint64_t asked = tek__decide_by_program(&rules, vector->words[1]) &
			       (~with_function |
				tek__decide_by_function(&rules, with_function, vector->words[4]));
	const struct tek_decision decision = tek__decide(&rules, asked, vector->words[2],
							 vector->words[3]);
	for (unsigned int i = 5; i < vector->count; i++)
		add(&expected, "%s%s", i > 5 ? " " : "", vector->words[i]);
	const struct written shown = show_decision(&decision);
	if (strcmp(shown.text, expected.text) != 0)
		vector_fail(vector, "it is %s", shown.text);
}

static void rules_decide_as_tek_does(void **state)
{
	(void)state;
	for_each_vector("decisions.txt", check_decision);
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
		cmocka_unit_test(rules_are_taken_and_refused_as_tek_does),
		cmocka_unit_test(rules_decide_as_tek_does),
		cmocka_unit_test(the_first_rule_that_is_not_understood_is_shown),
		cmocka_unit_test(there_are_64_rules_at_most),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
