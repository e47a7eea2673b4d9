/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A rule, and how the variable TEK_RULES is read: RULE;RULE;... where a RULE is
 * FIELD=VALUE,FIELD=VALUE,...; libtek(7) lists the fields.  crates/tek-policy writes
 * it, with the same limits.
 */
#ifndef TEK_MEDIATE_RULE_H
#define TEK_MEDIATE_RULE_H

#include "base/parse.h"
#include "tek_abi.h"
#include "tek_options.h"

/* The settings of a rule. */
enum tek_setting {
	TEK_SET_ROLE,
	TEK_SET_GROUP,
	TEK_SET_CRITICAL,
	TEK_SET_MARK,
	TEK_SET_PRIORITY,
	TEK_SET_BUDGET,
	TEK_SETTINGS
};

struct tek_rule {
	/* Patterns for fnmatch(3), all of which must fit; an empty one is not asked. */
	char program[TEK_PATTERN_BYTES + 1];
	char thread[TEK_PATTERN_BYTES + 1];
	char role_is[TEK_PATTERN_BYTES + 1];
	char function[TEK_FUNCTION_PATTERN_BYTES + 1];

	unsigned char sets; /* a bit, 1 << TEK_SET_*, for each of these that it sets */
	char role[TEK_ROLE_BYTES];
	unsigned char group;
	bool critical;
	bool mark;
	signed char priority;
	struct tek_budget budget;
};

struct tek_rules {
	unsigned int count;
	struct tek_rule rule[TEK_MAX_RULES];
};

/*
 * Read them.  NULL if all was understood; else where the first rule begins that was
 * not, and then rules->count is as it was.
 */
const char *tek__rules_parse(struct tek_rules *rules, const char *text);

#endif
