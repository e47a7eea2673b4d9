/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/parse.h"

#include "tek_abi.h"

#include <string.h>
#include <tek/tek.h>

bool tek__parse_word(const char **text, const char *word)
{
	size_t length = strlen(word);
	if (strncmp(*text, word, length) != 0)
		return false;
	*text += length;
	return true;
}

bool tek__parse_number(const char **text, uint64_t max, uint64_t *value)
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

bool tek__parse_nice(const char **text, signed char *nice)
{
	const char *p = *text;
	uint64_t number;
	bool negative = tek__parse_word(&p, "-");

	if (!tek__parse_number(&p, 20, &number))
		return false;
	int value = negative ? -(int)number : (int)number;
	if (value < TEK_PRIORITY_MIN || value > TEK_PRIORITY_MAX)
		return false;
	*text = p;
	*nice = (signed char)value;
	return true;
}

bool tek__parse_group(const char **text, unsigned char *group)
{
#define NAME(group, name, about) [TEK_GROUP_##group] = name,
	static const char *const names[] = {TEK_GROUP_NAMES(NAME)};
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (tek__parse_word(text, names[i])) {
			*group = (unsigned char)i;
			return true;
		}
	}
	return false;
}

static bool parse_duration(const char **text, uint64_t *ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
	uint64_t number;

	if (!tek__parse_number(text, TEK_WINDOW_MAX_NS, &number))
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (tek__parse_word(text, units[i].name)) {
			*ns = number * units[i].ns;
			return number <= TEK_WINDOW_MAX_NS / units[i].ns;
		}
	}
	return false;
}

bool tek__parse_budget(const char **text, struct tek_budget *budget)
{
	const char *p = *text;
	uint64_t cpu, window;

	if (tek__parse_word(text, "off")) {
		budget->cpu_ns = 0;
		return true;
	}
	if (!parse_duration(&p, &cpu) || !tek__parse_word(&p, "/") || !parse_duration(&p, &window))
		return false;
	if (cpu == 0 || cpu > window || window < TEK_WINDOW_MIN_NS || window > TEK_WINDOW_MAX_NS)
		return false;
	*text = p;
	*budget = (struct tek_budget){.cpu_ns = cpu, .window_ns = window};
	return true;
}
