/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The effect of rules on threads, and its time. */
#include "support.h"

#include "base/module.h"
#include "base/symbol.h"
#include "threads/process.h"
#include "threads/thread.h"

#include <time.h>

enum { PROCESS_BUDGET_MS = 400 };
static const char process_budget[] = "400ms/800ms";

static const char variable[] = "role-is=later,mark=1;"                             /* 1 */
			       "thread=gas*,role=gas,group=urgent,mark=1;"         /* 2 */
			       "role-is=gas,role=gas detection;"                   /* 3 */
			       "role-is=gas d*,role=later;"                        /* 4 */
			       "thread=two,role=first,critical=1,priority=-1;"     /* 5 */
			       "thread=two,role=second;"                           /* 6 */
			       "thread=t*,priority=-3;"                            /* 7 */
			       "thread=crit,priority=-20,critical=1;"              /* 8 */
			       "thread=not,critical=1;"                            /* 9 */
			       "thread=not,critical=0;"                            /* 10 */
			       "role-is=said,group=service;"                       /* 11 */
			       "function=runs_static,role=by a static function;"   /* 12 */
			       "function=runs_exp?rted,role=by an exported one;"   /* 13 */
			       "program=another,thread=*,role=of another program;" /* 14 */
			       "thread=busy,critical=1,budget=20ms/40ms;"          /* 15 */
			       "thread=free,critical=1,budget=off;"                /* 16 */
			       "program=test_rules,thread=test_rules,role=first thread";

/* A copy of what TEK has of the calling thread. */
static struct tek_thread self(void)
{
	assert_true(tek__lock());
	const struct tek_thread copy = *tek__thread_self();
	tek__unlock();
	return copy;
}

static void name(const char *name)
{
	assert_int_equal(pthread_setname_np(pthread_self(), name), 0);
}

static void print_role(const char *role)
{
	struct tek_attributes attributes;
	snprintf(attributes.role, sizeof(attributes.role), "%s", role);
	assert_int_equal(tek_thread_set_attributes(pthread_self(), TEK_ATTRIBUTE_ROLE, &attributes),
			 0);
}

/* Runs in a thread of its own, which ends with what it was given. */
static void in_thread(void *(*body)(void *))
{
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, body, NULL), 0);
	pthread_join(thread, NULL);
}

static void the_first_thread_counts_by_the_name_of_the_program(void **state)
{
	(void)state;
	assert_string_equal(self().role, "first thread");
}

static void *chain(void *unused)
{
	assert_string_equal(self().role, "");
	name("gas-1");
	const struct tek_thread gas = self();
	/* Rules 2, 3 and 4 in one pass; rule 1 came before there was its role. */
	assert_string_equal(gas.role, "later");
	assert_int_equal(gas.member.group, TEK_GROUP_URGENT);
	assert_true(gas.member.marked);
	/* The next pass begins with the program's own setting, not with that of the last pass. */
	name("gas-1");
	assert_string_equal(self().role, "later");
	return unused;
}

static void rules_are_tried_in_order_and_see_the_roles_of_those_before_them(void **state)
{
	(void)state;
	in_thread(chain);
}

static void *renamed(void *unused)
{
	print_role("own");
	name("gas");
	assert_string_equal(self().role, "later");
	name("other");
	const struct tek_thread other = self();
	assert_string_equal(other.role, "own");
	assert_int_equal(other.member.group, TEK_GROUP_URGENT);
	assert_true(other.member.marked);
	return unused;
}

static void a_role_lasts_as_long_as_a_rule_gives_it_a_group_and_a_mark_stay(void **state)
{
	(void)state;
	in_thread(renamed);
}

static void *prints(void *unused)
{
	print_role("said");
	assert_string_equal(self().role, "said");
	assert_int_equal(self().member.group, TEK_GROUP_SERVICE);
	/* Its own word holds until the next such moment. */
	tek_thread_set_group(pthread_self(), TEK_BACKGROUND);
	assert_int_equal(self().member.group, TEK_GROUP_BACKGROUND);
	print_role("said");
	assert_int_equal(self().member.group, TEK_GROUP_SERVICE);
	return unused;
}

static void a_role_that_the_program_sets_counts_at_once(void **state)
{
	(void)state;
	in_thread(prints);
}

static void *two(void *unused)
{
	name("two");
	const struct tek_thread two = self();
	assert_string_equal(two.role, "second");
	assert_true(is_fast(0));
	assert_int_equal(two.member.nice, -3);
	assert_int_equal(two.member.rule, 5);
	assert_int_equal(two.slot.side->rule, 5);
	assert_int_equal(two.slot.side->reasons, TEK_WHY_RULE);
	assert_string_equal((const char *)two.slot.side->role, "second");
	assert_int_equal(two.slot.record->role_bytes, strlen("second"));
	name("other");
	assert_false(is_fast(0));
	assert_int_equal(self().member.rule, 0);
	return unused;
}

static void of_two_rules_the_later_wins_each_thing_that_it_sets(void **state)
{
	(void)state;
	need_real_time();
	in_thread(two);
}

static void *critical(void *unused)
{
	name("crit");
	/* TEK_CRITICAL has it too, with another priority. */
	assert_true(is_fast(0));
	assert_int_equal(self().member.nice, 7);
	assert_int_equal(self().member.rule, 0);
	name("not");
	assert_false(is_fast(0));
	return unused;
}

static void tek_critical_comes_after_the_rules_and_a_later_rule_can_undo_it(void **state)
{
	(void)state;
	need_real_time();
	in_thread(critical);
}

static __attribute__((noinline)) void *runs_static(void *unused)
{
	assert_string_equal(self().role, "by a static function");
	return unused;
}

__attribute__((visibility("default"))) void *runs_exported(void *unused);
void *runs_exported(void *unused)
{
	assert_string_equal(self().role, "by an exported one");
	return unused;
}

static void a_thread_counts_by_the_function_that_it_runs(void **state)
{
	char symbol[12];

	(void)state;
	in_thread(runs_static);
	in_thread(runs_exported);
	in_thread(runs_static);
	tek__module_note((uintptr_t)runs_static);
	const struct tek_module *module = tek__module_of((uintptr_t)runs_static);
	assert_non_null(module);
	const char *path = (const char *)module->path;
	const uint64_t address = (uintptr_t)runs_static - module->bias;
	assert_true(tek__symbol_of(path, address, symbol, sizeof(symbol)));
	assert_string_equal(symbol, "runs_static");
	assert_false(tek__symbol_of(path, address, symbol, sizeof(symbol) - 1));
	assert_false(tek__symbol_of(path, address + 1, symbol, sizeof(symbol)));
	assert_false(tek__symbol_of("/nonexistent", address, symbol, sizeof(symbol)));
}

static uint64_t own_cpu_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Uses this much CPU time, as long as it is Fast; returns the largest charge at once. */
static uint64_t burn_ms(uint64_t ms)
{
	uint64_t now = own_cpu_ms(), end = now + ms, most = 0;
	bool fast;

	do {
		const uint64_t before = now;
		fast = is_fast(0);
		now = own_cpu_ms();
		if (now - before > most)
			most = now - before;
	} while (fast && now < end);
	return most;
}

/*
 * A hypervisor that takes the CPU has the thread charged with it: then the charge does not show
 * when the thread was expelled.
 */
static bool disturbed;

static void *busy(void *unused)
{
	name("busy");
	const bool fast = is_fast(0);
	disturbed = own_cpu_ms() >= 20;
	assert_true(fast || disturbed);
	disturbed = burn_ms(PROCESS_BUDGET_MS) > 100 || disturbed;
	assert_true(self().member.overruns >= 1);
	assert_true(disturbed || self().member.overruns == 1);
	assert_true(disturbed || own_cpu_ms() < PROCESS_BUDGET_MS);
	name("other");
	assert_false(self().member.own_budget);
	return unused;
}

static void *free_of_it(void *unused)
{
	name("free");
	burn_ms(PROCESS_BUDGET_MS + 200);
	assert_true(is_fast(0));
	return unused;
}

static void a_thread_may_have_a_budget_of_its_own(void **state)
{
	(void)state;
	need_real_time();
	in_thread(free_of_it);
	for (int attempt = 0; attempt < 10; attempt++) {
		in_thread(busy);
		if (!disturbed)
			return;
	}
	print_message("# needs a CPU that nobody takes away\n");
	skip();
}

int main(int argc, char *argv[])
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_thread_counts_by_the_name_of_the_program),
		cmocka_unit_test(rules_are_tried_in_order_and_see_the_roles_of_those_before_them),
		cmocka_unit_test(a_role_lasts_as_long_as_a_rule_gives_it_a_group_and_a_mark_stay),
		cmocka_unit_test(a_role_that_the_program_sets_counts_at_once),
		cmocka_unit_test(of_two_rules_the_later_wins_each_thing_that_it_sets),
		cmocka_unit_test(tek_critical_comes_after_the_rules_and_a_later_rule_can_undo_it),
		cmocka_unit_test(a_thread_counts_by_the_function_that_it_runs),
		cmocka_unit_test(a_thread_may_have_a_budget_of_its_own),
	};

	(void)argc;
	/* The rules are read when a program begins. */
	if (!getenv("TEK_RULES")) {
		setenv("TEK_RULES", variable, 1);
		setenv("TEK_CRITICAL", "crit=7", 1);
		setenv("TEK_BUDGET", process_budget, 1);
		execv(argv[0], argv);
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
