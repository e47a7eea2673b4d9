/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/config.h"

#include "mediate/report.h"

#include <stdlib.h>
#include <string.h>
#include <tek/tek.h>

struct tek_config tek__config = {
	.follow_marked = true,
	.budget_ns = 800000000,
	.window_ns = 1000000000,
	.rt_low = 10,
	.rt_high = 49,
};

/* A decimal number without sign at *text, not above max; moves *text behind it. */
static bool parse_number(const char **text, uint64_t max, uint64_t *value)
{
	const char *p = *text;
	uint64_t number = 0;

	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++) {
		number = number * 10 + (uint64_t)(*p - '0');
		if (number > max)
			return false;
	}
	*text = p;
	*value = number;
	return true;
}

static bool skip(const char **text, const char *word)
{
	size_t length = strlen(word);
	if (strncmp(*text, word, length) != 0)
		return false;
	*text += length;
	return true;
}

static bool parse_duration(const char **text, uint64_t *ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
	uint64_t number;

	if (!parse_number(text, TEK_WINDOW_MAX_NS, &number))
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (skip(text, units[i].name)) {
			*ns = number * units[i].ns;
			return number <= TEK_WINDOW_MAX_NS / units[i].ns;
		}
	}
	return false;
}

/* -20 to 19, up to the end of the word. */
static bool parse_nice(const char *text, const char *end, signed char *nice)
{
	uint64_t number;
	bool negative = skip(&text, "-");

	if (!parse_number(&text, 20, &number) || text != end)
		return false;
	int value = negative ? -(int)number : (int)number;
	*nice = (signed char)value;
	return value >= TEK_PRIORITY_MIN && value <= TEK_PRIORITY_MAX;
}

static bool parse_rule(const char *text, const char *end, struct tek_rule *rule)
{
	const char *equals = memrchr(text, '=', (size_t)(end - text));
	size_t length = (size_t)((equals ? equals : end) - text);

	if (length == 0 || length >= sizeof(rule->glob))
		return false;
	memcpy(rule->glob, text, length);
	rule->glob[length] = '\0';
	rule->nice = 0;
	return !equals || parse_nice(equals + 1, end, &rule->nice);
}

bool tek__config_parse_rules(struct tek_config *config, const char *text)
{
	struct tek_rule rules[TEK_MAX_RULES];
	unsigned int count = 0;

	while (*text) {
		const char *end = strchrnul(text, ',');
		if (count == TEK_MAX_RULES || !parse_rule(text, end, &rules[count]))
			return false;
		count++;
		text = *end ? end + 1 : end;
	}
	memcpy(config->rules, rules, count * sizeof(rules[0]));
	config->rule_count = count;
	return true;
}

bool tek__config_parse_budget(struct tek_config *config, const char *text)
{
	uint64_t cpu, window;

	if (strcmp(text, "off") == 0) {
		config->budget_ns = 0;
		return true;
	}
	if (!parse_duration(&text, &cpu) || !skip(&text, "/") || !parse_duration(&text, &window) ||
	    *text)
		return false;
	if (cpu == 0 || cpu > window || window < TEK_WINDOW_MIN_NS || window > TEK_WINDOW_MAX_NS)
		return false;
	config->budget_ns = cpu;
	config->window_ns = window;
	return true;
}

bool tek__config_parse_range(struct tek_config *config, const char *text)
{
	uint64_t low, high;

	/* 99 is for the guard of a range that ends at 98. */
	if (!parse_number(&text, 98, &low) || !skip(&text, "-") ||
	    !parse_number(&text, 98, &high) || *text || low < 1 || low > high)
		return false;
	config->rt_low = (unsigned char)low;
	config->rt_high = (unsigned char)high;
	return true;
}

static bool parse_follow(struct tek_config *config, const char *text)
{
	if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
		return false;
	config->follow_marked = *text == '1';
	return true;
}

void tek__config_read(void)
{
	static const struct {
		const char *name;
		bool (*parse)(struct tek_config *, const char *);
	} variables[] = {
		{"TEK_CRITICAL", tek__config_parse_rules},
		{"TEK_BUDGET", tek__config_parse_budget},
		{"TEK_RT_RANGE", tek__config_parse_range},
		{"TEK_FOLLOW_MARKED", parse_follow},
	};
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *text = secure_getenv(variables[i].name);
		if (text && *text && !variables[i].parse(&tek__config, text))
			tek__report_bad_option(variables[i].name, text);
	}
}
