/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/roles.h"

#include "base/owner.h"
#include "base/program.h"
#include "mediate/rule.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>

bool tek_ut__roles_any;

static struct tek_rules rules;
static const char none[TEK_ROLE_BYTES];

static bool fits(const char *glob, const char *text)
{
	return !glob[0] || (text[0] && fnmatch(glob, text, 0) == 0);
}

/* Whether it gives a role to threads of this program. Rules by function are not applied. */
static bool is_for_us(const struct tek_rule *rule)
{
	return rule->sets & 1u << TEK_SET_ROLE && !rule->function[0] &&
	       fits(rule->program, __progname);
}

void tek_ut__roles_start(void)
{
	const char *text = secure_getenv("TEK_RULES");
	const char *bad = text ? tek__rules_parse(&rules, text) : NULL;

	if (bad)
		tek__owner->bad_option("TEK_RULES", *bad ? bad : "an empty rule at its end");
	for (unsigned int i = 0; i < rules.count; i++)
		tek_ut__roles_any |= is_for_us(&rules.rule[i]);
}

const char *tek_ut__role_of(const char *name)
{
	const char *role = none;

	for (unsigned int i = 0; i < rules.count; i++) {
		const struct tek_rule *rule = &rules.rule[i];
		if (is_for_us(rule) && fits(rule->thread, name) && fits(rule->role_is, role))
			role = rule->role;
	}
	return role;
}
