/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What rules make of a thread: pure functions, which mediate/rules.c calls. crates/tek-policy
 * decides the same (tests/vectors/decisions.txt). Sets of rules are words of bits, by number.
 */
#ifndef TEK_MEDIATE_DECIDE_H
#define TEK_MEDIATE_DECIDE_H

#include "mediate/rule.h"

#include <stdint.h>

/* For each setting the rule that gives it; NULL where none does. */
struct tek_decision {
	const struct tek_rule *by[TEK_SETTINGS];
};

/* The bit of a rule. */
static inline uint64_t tek__decide_bit(unsigned int index)
{
	return UINT64_C(1) << index % TEK_MAX_RULES;
}

/* The rules whose pattern for programs is absent or fits. */
uint64_t tek__decide_by_program(const struct tek_rules *rules, const char *program);

/* The rules that have a pattern for functions. */
uint64_t tek__decide_with_function(const struct tek_rules *rules);

/* Of those in `asked` the ones whose pattern for functions fits. */
uint64_t tek__decide_by_function(const struct tek_rules *rules, uint64_t asked, const char *symbol);

/*
 * The decision of those in `asked` for a thread with this name and role, "" if it has none. The
 * last matching rule wins each setting. A rule sees the role that rules before it gave.
 */
struct tek_decision tek__decide(const struct tek_rules *rules, uint64_t asked, const char *name,
				const char *role);

#endif
