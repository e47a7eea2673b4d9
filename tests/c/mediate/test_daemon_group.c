/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tekd puts threads into the groups that their program or a rule gives them.  The program runs on
 * without a tekd all the same.
 */
#include "daemon_support.h"

#include "mediate/group.h"
#include "mediate/rules.h"

#include <sys/prctl.h>

static enum tek_group group_of(pthread_t thread)
{
	enum tek_group group = TEK_NORMAL;
	expect(tek_thread_get_group(thread, &group) == 0);
	return group;
}

/* The daemon notices the end of a connection a moment later. */
static bool open_connections_become(unsigned int count)
{
	for (int i = 0; i < 300 && fake->open_connections != count; i++)
		sleep_ms(10);
	return fake->open_connections == count;
}

static void follow_rules(const char *rules)
{
	expect(setenv("TEK_RULES", rules, 1) == 0);
	tek__rules_read();
}

static void gives_itself_a_group(void)
{
	struct tek_attributes attributes = {.group = TEK_SERVICE};

	expect(tek_thread_set_group(pthread_self(), TEK_BACKGROUND) == 0);
	expect(asked(TEK_ASK_GROUP) == 1 && fake->group == TEK_GROUP_BACKGROUND);
	expect(fake->group_tid == own_tid() && group_of(pthread_self()) == TEK_BACKGROUND);
	expect(tek_thread_set_attributes(pthread_self(), TEK_ATTRIBUTE_GROUP, &attributes) == 0);
	expect(asked(TEK_ASK_GROUP) == 2 && fake->group == TEK_GROUP_SERVICE);
	expect(asked(TEK_ASK_HELLO) == 0 && open_connections_become(0));
}

static void a_group_that_a_program_gives_is_asked_for_and_nothing_stays_open(void **state)
{
	(void)state;
	with_daemon(GRANTS, gives_itself_a_group);
}

static void gives_what_it_has(void)
{
	struct waiter child;

	expect(tek_thread_set_group(pthread_self(), TEK_NORMAL) == 0 && fake->connections == 0);
	expect(tek_thread_set_group(pthread_self(), TEK_SERVICE) == 0);
	waiter_start(&child, NULL);
	expect(group_of(child.thread) == TEK_SERVICE);
	expect(tek_thread_set_group(child.thread, TEK_SERVICE) == 0);
	expect(asked(TEK_ASK_GROUP) == 1);
	waiter_end(&child);
}

static void a_group_that_a_thread_has_or_inherits_is_not_asked_for(void **state)
{
	(void)state;
	with_daemon(GRANTS, gives_what_it_has);
}

static void *name_itself(void *unused)
{
	(void)unused;
	prctl(PR_SET_NAME, "cloud");
	return NULL;
}

enum { MANY = 200 };

static void many_are_placed(void)
{
	pthread_t threads[MANY];

	follow_rules("thread=cloud,group=background");
	for (int i = 0; i < MANY; i++)
		expect(pthread_create(&threads[i], NULL, name_itself, NULL) == 0);
	for (int i = 0; i < MANY; i++)
		expect(pthread_join(threads[i], NULL) == 0);
	expect(asked(TEK_ASK_GROUP) == MANY && fake->group == TEK_GROUP_BACKGROUND);
	expect(open_connections_become(0));
}

static void each_thread_that_a_rule_places_is_asked_for_once_and_nothing_stays_open(void **state)
{
	(void)state;
	with_daemon(GRANTS, many_are_placed);
}

static void is_fast_too(void)
{
	expect(set_tek(pthread_self(), 0) == 0);
	expect(tek_thread_set_group(pthread_self(), TEK_URGENT) == 0);
	expect(is_fast(0) && fake->group == TEK_GROUP_URGENT && fake->connections == 1);
	sleep_ms(20);
	expect(is_fast(0) && fake->open_connections == 1);
}

static void a_connection_over_which_a_thread_is_fast_serves_and_stays(void **state)
{
	(void)state;
	with_daemon(GRANTS, is_fast_too);
}

static void *become_fast(void *unused)
{
	(void)unused;
	expect(tek_thread_set_group(pthread_self(), TEK_SERVICE) == 0);
	expect(set_tek(pthread_self(), 0) == 0 && is_fast(0));
	return NULL;
}

static void becomes_fast_after(void)
{
	pthread_t threads[MANY / 20];

	for (int i = 0; i < MANY / 20; i++)
		expect(pthread_create(&threads[i], NULL, become_fast, NULL) == 0);
	for (int i = 0; i < MANY / 20; i++)
		expect(pthread_join(threads[i], NULL) == 0);
	expect(asked(TEK_ASK_HELLO) >= 1 && asked(TEK_ASK_ENTER) == MANY / 20);
}

static void threads_that_are_placed_become_fast_beside_each_other(void **state)
{
	(void)state;
	with_daemon(GRANTS, becomes_fast_after);
}

static void is_refused_urgent(void)
{
	fake->group_error = EPERM;
	for (int i = 0; i < 10; i++) {
		expect(tek_thread_set_group(pthread_self(), TEK_URGENT) == 0);
		expect(group_of(pthread_self()) == TEK_URGENT);
		expect(tek_thread_set_group(pthread_self(), TEK_NORMAL) == 0);
	}
}

static void receives_a_refusal(void)
{
	listen_to_stderr(is_refused_urgent);
	char *reported = strstr(printed, "no [[grant]] is for it");
	expect(reported && !strstr(reported + 1, "no [[grant]]"));
	/* Each of the two groups was refused once, and then left alone. */
	expect(asked(TEK_ASK_GROUP) == 2);
	fake->group_error = 0;
	expect(tek_thread_set_group(pthread_self(), TEK_BACKGROUND) == 0);
	expect(asked(TEK_ASK_GROUP) == 3);
}

static void a_group_that_is_refused_is_one_message_and_left_alone(void **state)
{
	(void)state;
	with_daemon(GRANTS, receives_a_refusal);
}

static void changes_often(void)
{
	const struct tek_attributes iterations[] = {{.group = TEK_SERVICE}, {.group = TEK_NORMAL}};

	for (int i = 0; i < 1000; i++)
		expect(tek_thread_set_attributes(pthread_self(), TEK_ATTRIBUTE_GROUP,
						 &iterations[i % 2]) == 0);
}

static void finds_no_groups(void)
{
	fake->group_error = EOPNOTSUPP;
	listen_to_stderr(changes_often);
	expect(printed[0] == '\0' && asked(TEK_ASK_GROUP) == 1);
	fake->group_error = 0;
	for (int group = 0; group < TEK_GROUPS; group++)
		tek__group_again_ns[group] = 1; /* the ten seconds are over */
	changes_often();
	expect(asked(TEK_ASK_GROUP) > 900);
}

static void a_daemon_without_groups_is_left_alone_without_a_word_and_asked_again_later(void **state)
{
	(void)state;
	with_daemon(GRANTS, finds_no_groups);
}

static void finds_nobody(void)
{
	strcat(tek__config.socket, "-not-there");
	listen_to_stderr(changes_often);
	expect(printed[0] == '\0' && fake->connections == 0);
	expect(group_of(pthread_self()) == TEK_NORMAL);
}

static void without_a_daemon_a_group_is_given_without_a_word(void **state)
{
	(void)state;
	with_daemon(GRANTS, finds_nobody);
}

static void waits_once(void)
{
	uint64_t before = now_ms();

	changes_often();
	uint64_t took = now_ms() - before;
	expect(took >= 900 && took < 5000);
}

static void receives_nothing(void)
{
	listen_to_stderr(waits_once);
	expect(strstr(printed, "it does not answer") && asked(TEK_ASK_GROUP) == 1);
}

static void a_silent_daemon_is_waited_for_once(void **state)
{
	(void)state;
	with_daemon(IS_SILENT, receives_nothing);
}

static void is_asked_after_a_restart(void)
{
	expect(set_tek(pthread_self(), 0) == 0);
	restart_daemon();
	expect(tek_thread_set_group(pthread_self(), TEK_SERVICE) == 0);
	expect(fake->group == TEK_GROUP_SERVICE && asked(TEK_ASK_GROUP) == 1);
	expect(open_connections_become(0));
	expect(set_tek(pthread_self(), -1) == 0 && is_fast(0));
}

static void a_daemon_that_was_restarted_places_threads_and_makes_them_fast_again(void **state)
{
	(void)state;
	with_daemon(GRANTS, is_asked_after_a_restart);
}

static int child_has_its_parents_group(void)
{
	expect(group_of(pthread_self()) == TEK_BACKGROUND);
	expect(tek_thread_set_group(pthread_self(), TEK_BACKGROUND) == 0);
	return 0;
}

static void forks_in_a_group(void)
{
	expect(tek_thread_set_group(pthread_self(), TEK_BACKGROUND) == 0);
	expect(in_child(child_has_its_parents_group) == 0);
	expect(asked(TEK_ASK_GROUP) == 1);
}

static void the_child_of_a_fork_begins_in_the_group_of_the_thread_that_forked(void **state)
{
	(void)state;
	with_daemon(GRANTS, forks_in_a_group);
}

static void asks_with_budgets(void)
{
	expect(tek_critical_enter() == 0 && fake->budget_us == 0 && fake->window_us == 0);
	expect(tek_set_budget(2500000, 50000000) == 0);
	expect(fake->budget_us == 2500 && fake->window_us == 50000);
	expect(asked(TEK_ASK_ENTER) == 2);
	expect(tek_set_budget(0, 50000000) == 0); /* no limit of its own */
	expect(fake->budget_us == 0 && fake->window_us == 0 && is_fast(0));
	follow_rules("thread=ui,budget=10ms/40ms");
	prctl(PR_SET_NAME, "ui");
	expect(fake->budget_us == 10000 && fake->window_us == 40000);
	prctl(PR_SET_NAME, "ui");
	expect(asked(TEK_ASK_ENTER) == 4);
}

static void the_daemon_gets_the_budgets_of_the_program_and_of_rules(void **state)
{
	(void)state;
	with_daemon(GRANTS, asks_with_budgets);
}

static void a_variable_sets_the_group_in_which_a_program_begins(void **state)
{
	struct tek_config config = {.group = TEK_GROUP_SERVICE};

	(void)state;
	assert_false(tek__config_parse_group(&config, "best"));
	assert_false(tek__config_parse_group(&config, "normally"));
	assert_int_equal(config.group, TEK_GROUP_SERVICE);
	assert_true(tek__config_parse_group(&config, "background"));
	assert_int_equal(config.group, TEK_GROUP_BACKGROUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_group_that_a_program_gives_is_asked_for_and_nothing_stays_open),
		cmocka_unit_test(a_group_that_a_thread_has_or_inherits_is_not_asked_for),
		cmocka_unit_test(
			each_thread_that_a_rule_places_is_asked_for_once_and_nothing_stays_open),
		cmocka_unit_test(a_connection_over_which_a_thread_is_fast_serves_and_stays),
		cmocka_unit_test(threads_that_are_placed_become_fast_beside_each_other),
		cmocka_unit_test(a_group_that_is_refused_is_one_message_and_left_alone),
		cmocka_unit_test(
			a_daemon_without_groups_is_left_alone_without_a_word_and_asked_again_later),
		cmocka_unit_test(without_a_daemon_a_group_is_given_without_a_word),
		cmocka_unit_test(a_silent_daemon_is_waited_for_once),
		cmocka_unit_test(
			a_daemon_that_was_restarted_places_threads_and_makes_them_fast_again),
		cmocka_unit_test(the_child_of_a_fork_begins_in_the_group_of_the_thread_that_forked),
		cmocka_unit_test(the_daemon_gets_the_budgets_of_the_program_and_of_rules),
		cmocka_unit_test(a_variable_sets_the_group_in_which_a_program_begins),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
