/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/decide.h"

#include <fnmatch.h>

_Static_assert(TEK_MAX_RULES == 64, "a bit for each rule");

static bool fits(const char *glob, const char *name)
{
	return !glob[0] || (name[0] && fnmatch(glob, name, 0) == 0);
}

uint64_t tek__decide_by_program(const struct tek_rules *rules, const char *program)
{
	uint64_t result = 0;

	for (unsigned int i = 0; i < rules->count; i++)
		if (fits(rules->rule[i].program, program))
			result |= tek__decide_bit(i);
	return result;
}

uint64_t tek__decide_with_function(const struct tek_rules *rules)
{
	uint64_t result = 0;

	for (unsigned int i = 0; i < rules->count; i++)
		if (rules->rule[i].function[0])
			result |= tek__decide_bit(i);
	return result;
}

uint64_t tek__decide_by_function(const struct tek_rules *rules, uint64_t asked, const char *symbol)
{
	uint64_t result = 0;

	for (unsigned int i = 0; i < rules->count; i++)
		if (asked & tek__decide_bit(i) && fits(rules->rule[i].function, symbol))
			result |= tek__decide_bit(i);
	return result;
}

struct tek_decision tek__decide(const struct tek_rules *rules, uint64_t asked, const char *name,
				const char *role)
{
	struct tek_decision decision = {0};

	for (unsigned int i = 0; i < rules->count; i++) {
		const struct tek_rule *rule = &rules->rule[i];
		if (!(asked & tek__decide_bit(i)) || !fits(rule->thread, name) ||
		    !fits(rule->role_is, role))
			continue;
		for (unsigned int setting = 0; setting < TEK_SETTINGS; setting++)
			if (rule->sets & 1u << setting)
				decision.by[setting] = rule;
		if (decision.by[TEK_SET_ROLE])
			role = decision.by[TEK_SET_ROLE]->role;
	}
	return decision;
}
