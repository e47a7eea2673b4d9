/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The parser of TEK_RULES: any text, and only sensible rules. */
#include "mediate/rule.h"

#include "base/parse.h"
#include "base/utf8.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <tek/tek.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct tek_rule *rule)
{
	bool asks = rule->program[0] || rule->thread[0] || rule->role_is[0] || rule->function[0];

	if (!asks || !rule->sets || rule->sets >= 1 << TEK_SETTINGS ||
	    rule->group > TEK_GROUP_BACKGROUND || rule->priority < TEK_PRIORITY_MIN ||
	    rule->priority > TEK_PRIORITY_MAX || rule->budget.window_ns < TEK_WINDOW_MIN_NS ||
	    rule->budget.window_ns > TEK_WINDOW_MAX_NS ||
	    rule->budget.cpu_ns > rule->budget.window_ns ||
	    strnlen(rule->role, sizeof(rule->role)) == sizeof(rule->role) ||
	    !tek__is_utf8(rule->role, strlen(rule->role)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct tek_rules rules;
	char *text = malloc(size + 1);

	memcpy(text, data, size);
	text[size] = '\0';
	rules.count = 0;
	const char *bad = tek__rules_parse(&rules, text);
	if (bad && (bad < text || bad > text + size || rules.count))
		abort();
	for (unsigned int i = 0; i < rules.count; i++)
		check(&rules.rule[i]);
	free(text);
	return 0;
}
