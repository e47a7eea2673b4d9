/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/rules.h"

#include "base/module.h"
#include "base/program.h"
#include "base/real.h"
#include "base/symbol.h"
#include "mediate/config.h"
#include "mediate/decide.h"
#include "mediate/effect.h"
#include "mediate/group.h"
#include "mediate/guard.h"
#include "mediate/region.h"
#include "threads/process.h"
#include "threads/record.h"
#include "threads/report.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static struct tek_rules rules;
static uint64_t here;           /* those for this program: a bit for each */
static uint64_t function_rules; /* those of them that ask for a function */

bool tek__rules_any;
bool tek__rules_by_name;

/* The known start routines; guarded by the lock. A later one takes the place. */
static struct {
	uintptr_t function;
	uint64_t rules;
} functions[64];

void tek__rules_read(void)
{
	const char *text = secure_getenv("TEK_RULES");
	const char *bad = text ? tek__rules_parse(&rules, text) : NULL;

	if (bad)
		tek__report_bad_option("TEK_RULES", *bad ? bad : "an empty rule at its end");
	here = tek__decide_by_program(&rules, __progname);
	function_rules = here & tek__decide_with_function(&rules);
	for (unsigned int i = 0; i < rules.count; i++)
		tek__rules_by_name |= here & tek__decide_bit(i) && rules.rule[i].thread[0];
	tek__rules_any = here || tek__config.critical_count > 0;
	tek__rules_by_name |= tek__config.critical_count > 0;
}

/*
 * The callable of a std::thread may be known by a vtable only (struct tek_record), two words behind
 * its symbol.
 */
static bool symbol_of(uintptr_t function, char *symbol, size_t size)
{
	static const char vtable[] = "_ZTV";
	const struct tek_module *module = tek__module_of(function);

	if (!module)
		return false;
	const char *path = (const char *)module->path;
	uint64_t address = function - module->bias;
	if (tek__symbol_of(path, address, symbol, size))
		return true;
	return tek__symbol_of(path, address - 2 * sizeof(void *), symbol, size) &&
	       strncmp(symbol, vtable, strlen(vtable)) == 0;
}

uint64_t tek__rules_of_function(uintptr_t function)
{
	size_t slot = (function >> 4) % (sizeof(functions) / sizeof(functions[0]));
	char symbol[256];
	uint64_t result = 0;

	if (!function_rules || !tek__lock())
		return 0;
	bool known = functions[slot].function == function;
	if (known)
		result = functions[slot].rules;
	tek__unlock();
	if (known)
		return result;

	if (symbol_of(function, symbol, sizeof(symbol)))
		result = tek__decide_by_function(&rules, function_rules, symbol);
	if (tek__lock()) {
		functions[slot].function = function;
		functions[slot].rules = result;
		tek__unlock();
	}
	return result;
}

static struct tek_decision decide(const struct tek_thread *thread)
{
	const uint64_t asked = here & (~function_rules | thread->birth.functions);
	return tek__decide(&rules, asked, thread->named ? thread->name : "", thread->own_role);
}

/* The best priority (lowest nice value) that TEK_CRITICAL has for its name; NULL: none. */
static const struct tek_critical *critical_by_name(const struct tek_thread *thread)
{
	const struct tek_critical *best = NULL;

	for (unsigned int i = 0; thread->named && i < tek__config.critical_count; i++) {
		const struct tek_critical *critical = &tek__config.critical[i];
		if (fnmatch(critical->glob, thread->name, 0) == 0 &&
		    (!best || critical->nice < best->nice))
			best = critical;
	}
	return best;
}

static void apply_role(struct tek_thread *thread, const struct tek_rule *rule)
{
	const char *before = thread->role;

	thread->role = rule ? rule->role : thread->own_role;
	thread->role_bytes = (unsigned char)strlen(thread->role);
	if (strcmp(before, thread->role) != 0)
		tek__thread_publish(thread);
}

static void apply_critical(struct tek_thread *thread, const struct tek_rule *rule,
			   const struct tek_rule *priority)
{
	const struct tek_critical *critical = critical_by_name(thread);

	if (critical)
		tek__region_follow_rule(thread, 0, critical->nice);
	else if (rule && rule->critical)
		tek__region_follow_rule(thread, (unsigned int)(rule - rules.rule) + 1,
					priority ? priority->priority : 0);
	else
		tek__region_follow_no_rule(thread);
}

void tek__rules_apply(struct tek_thread *thread)
{
	if (!tek__rules_any)
		return;
	const struct tek_decision decision = decide(thread);
	const struct tek_rule *group = decision.by[TEK_SET_GROUP];
	const struct tek_rule *mark = decision.by[TEK_SET_MARK];
	const struct tek_rule *budget = decision.by[TEK_SET_BUDGET];

	apply_role(thread, decision.by[TEK_SET_ROLE]);
	if (group)
		tek__group_give(thread, group->group);
	if (mark)
		tek__region_mark(thread, mark->mark);
	tek__guard_set_budget(thread, budget ? &budget->budget : NULL);
	if (thread->member.connection && !thread->member.paused)
		tek__effect_move(thread->tid, &thread->member);
	apply_critical(thread, decision.by[TEK_SET_CRITICAL], decision.by[TEK_SET_PRIORITY]);
}

void tek__rules_main_thread(void)
{
	char name[16] = "";

	if (!tek__rules_any || !tek__lock())
		return;
	struct tek_thread *thread = tek__thread_self();
	if (thread && tek__c_library.prctl(PR_GET_NAME, name) == 0) {
		tek__thread_set_name(thread, name);
		tek__rules_apply(thread);
	}
	tek__unlock();
}
