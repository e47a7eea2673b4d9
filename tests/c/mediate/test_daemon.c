/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tekd makes the threads of a process Fast that may not do so itself.  The program runs on whatever
 * tekd does, and after its end.
 */
#include "daemon_support.h"

#include <linux/capability.h>
#include <spawn.h>

static void take_back(pid_t tid, int error)
{
	fake->error = error;
	fake->take_back = tid;
	for (int i = 0; i < 300 && fake->take_back; i++)
		sleep_ms(10);
	expect(!fake->take_back);
	sleep_ms(20); /* the notice follows */
}

static void becomes_fast_and_is_given_back(void)
{
	struct sched_param param;
	int policy;

	setpriority(PRIO_PROCESS, 0, 3);
	expect(tek_check() == 0);
	expect(set_tek(pthread_self(), -3) == 0);
	expect(is_fast(0) && kernel_rt_priority(0) == 32);
	expect(pthread_getschedparam(pthread_self(), &policy, &param) == 0);
	expect(policy == SCHED_TEK && param.sched_priority == -3);
	expect(set_other(pthread_self()) == 0);
	expect(kernel_policy(0) == SCHED_OTHER && !kernel_reset_on_fork(0));
	expect(kernel_nice(0) == 3);
	expect(policy_of(pthread_self()) == SCHED_OTHER);
	expect(asked(TEK_ASK_HELLO) == 1 && fake->connections == 1);
}

static void a_thread_that_may_not_itself_becomes_fast_by_the_daemon_and_is_given_back(void **state)
{
	(void)state;
	with_daemon(GRANTS, becomes_fast_and_is_given_back);
}

static void asks_only_for_what_is_new(void)
{
	expect(tek_critical_enter() == 0 && tek_critical_enter() == 0);
	expect(asked(TEK_ASK_ENTER) == 1);
	expect(set_tek(pthread_self(), 5) == 0); /* no better than what it has */
	expect(asked(TEK_ASK_ENTER) == 1);
	expect(set_tek(pthread_self(), -5) == 0);
	expect(asked(TEK_ASK_ENTER) == 2 && fake->priority == -5 && kernel_rt_priority(0) == 34);
	expect(tek_critical_leave() == 0 && tek_critical_leave() == 0);
	expect(is_fast(0) && asked(TEK_ASK_ENTER) == 2 && asked(TEK_ASK_LEAVE) == 0);
	set_other(pthread_self());
	expect(!is_fast(0));
}

static void the_daemon_is_asked_only_where_something_changes(void **state)
{
	(void)state;
	with_daemon(GRANTS, asks_only_for_what_is_new);
}

static void stays_for_a_time(void)
{
	struct waiter follower;

	waiter_start(&follower, NULL);
	expect(tek_thread_mark(follower.thread, 1) == 0);
	uint64_t before = fake_now();
	expect(tek_critical_for(300000000) == 0);
	expect(fake->until_ns >= before + 300000000 && fake->until_ns < before + 3000000000u);
	expect(is_fast(0) && is_fast(follower.tid));

	/* Something without an end comes on top, and goes again. */
	expect(tek_critical_enter() == 0 && fake->until_ns == 0);
	expect(tek_critical_leave() == 0 && fake->until_ns != 0);

	/* No request is made meanwhile, and both threads are restored all the same. */
	expect(fast_after(0, false) && fast_after(follower.tid, false));
	sleep_ms(20);
	expect(policy_of(pthread_self()) == SCHED_OTHER);
	expect(policy_of(follower.thread) == SCHED_OTHER);
	expect(tek_critical_for(UINT64_MAX) == 0 && fake->until_ns == 0 && is_fast(0));
	expect(tek_critical_for(1) == 0);
	waiter_end(&follower);
}

static void a_timed_stay_is_ended_by_the_daemon_and_so_is_that_of_a_follower(void **state)
{
	(void)state;
	with_daemon(GRANTS, stays_for_a_time);
}

static void too_short_a_time(void)
{
	expect(tek_critical_for(1) == 0);
	expect(fast_after(0, false) && policy_of(pthread_self()) == SCHED_OTHER);
}

static void a_time_that_is_over_at_once_is_no_error(void **state)
{
	(void)state;
	with_daemon(GRANTS, too_short_a_time);
}

static void is_born_critical(void)
{
	struct waiter waiter;
	pthread_attr_t critical;

	pthread_attr_init(&critical);
	expect(pthread_attr_setschedpolicy(&critical, SCHED_TEK) == 0);
	pthread_attr_setinheritsched(&critical, PTHREAD_EXPLICIT_SCHED);
	waiter_start(&waiter, &critical);
	expect(is_fast(waiter.tid));
	waiter_end(&waiter);
	expect(asked(TEK_ASK_LEAVE) == 1); /* so that it counts in no quota */
	pthread_attr_destroy(&critical);
}

static void a_thread_can_be_born_critical_and_leaves_when_it_ends(void **state)
{
	(void)state;
	with_daemon(GRANTS, is_born_critical);
}

static void creates_ordinary_children(void)
{
	struct waiter waiter;
	char *const ends[] = {"true", NULL};
	pid_t pid;
	int status;

	setpriority(PRIO_PROCESS, 0, 4);
	expect(tek_critical_enter() == 0);
	waiter_start(&waiter, NULL);
	expect(kernel_policy(waiter.tid) == SCHED_OTHER && kernel_nice(waiter.tid) == 4);
	waiter_end(&waiter);

	expect(posix_spawnp(&pid, "true", NULL, NULL, ends, environ) == 0);
	expect(kernel_policy(pid) == SCHED_OTHER && kernel_nice(pid) == 4);
	expect(waitpid(pid, &status, 0) == pid && status == 0);
	expect(is_fast(0) && policy_of(pthread_self()) == SCHED_TEK);
	expect(tek_critical_leave() == 0 && !is_fast(0));
}

static void what_a_fast_thread_starts_is_not_fast(void **state)
{
	(void)state;
	with_daemon(GRANTS, creates_ordinary_children);
}

static void asks_and_asks_again(void)
{
	for (int i = 0; i < 3; i++)
		expect(set_tek(pthread_self(), 0) == EPERM);
}

static void is_refused_with_a_reason(void)
{
	listen_to_stderr(asks_and_asks_again);
	expect(!is_fast(0) && tek_check() == EPERM);
	const char *why = strstr(printed, "uid 54321 is in no [[grant]]");
	expect(why && strchr(printed, '\n') == printed + strlen(printed) - 1);
	expect(!strchr(printed, '\033')); /* whatever the text of the daemon */
}

static void a_refusal_is_eperm_and_the_daemons_reason_is_reported_once(void **state)
{
	(void)state;
	with_daemon(REFUSES_ALL, is_refused_with_a_reason);
}

static void asks_for_too_much(void)
{
	expect(set_tek(pthread_self(), 0) == EAGAIN && set_tek(pthread_self(), 0) == EAGAIN);
}

static void is_refused_one_more(void)
{
	listen_to_stderr(asks_for_too_much);
	expect(strstr(printed, "8 threads of this process are critical already"));
	fake->conduct = GRANTS;
	expect(set_tek(pthread_self(), 0) == 0 && is_fast(0) && fake->connections == 1);
}

static void a_thread_too_many_is_eagain_and_may_ask_again(void **state)
{
	(void)state;
	with_daemon(REFUSES_MORE, is_refused_one_more);
}

static void finds_nobody(void)
{
	strcpy(tek__config.socket, "/nowhere/tekd");
	expect(set_tek(pthread_self(), 0) == EPERM);
	strcpy(tek__config.socket, "/dev/null");
	expect(set_tek(pthread_self(), 0) == EPERM);
	tek__config.socket[0] = '\0';
	expect(set_tek(pthread_self(), 0) == EPERM && tek_check() == EPERM);
	expect(tek_critical_leave() == EINVAL);
}

static void gets_one_message_with_the_cure(void)
{
	listen_to_stderr(finds_nobody);
	expect(strstr(printed, "Start tekd") && strstr(printed, "LimitRTPRIO=60"));
	expect(strchr(printed, '\n') == printed + strlen(printed) - 1);
}

static void without_a_daemon_it_is_eperm_and_one_message_has_the_cure(void **state)
{
	(void)state;
	with_daemon(GRANTS, gets_one_message_with_the_cure);
}

static void does_not_wait_for_ever(void)
{
	uint64_t before = now_ms();
	expect(set_tek(pthread_self(), 0) == EPERM);
	expect(now_ms() - before < 4000);
	before = now_ms();
	for (int i = 0; i < 20; i++)
		expect(set_tek(pthread_self(), 0) == EPERM);
	expect(now_ms() - before < 900);
}

static void a_silent_daemon_is_waited_for_once_and_not_long(void **state)
{
	(void)state;
	with_daemon(IS_SILENT, does_not_wait_for_ever);
	with_daemon(IS_DEAF, does_not_wait_for_ever);
}

static void gets_no_sense(void)
{
	expect(set_tek(pthread_self(), 0) == EPERM && tek_critical_enter() == EPERM);
	expect(!is_fast(0) && policy_of(pthread_self()) == SCHED_OTHER);
	fake->conduct = GRANTS;
	expect(set_tek(pthread_self(), 0) == 0 && is_fast(0));
}

static void a_daemon_that_sends_nonsense_is_not_believed_until_it_makes_sense(void **state)
{
	static const enum conduct all[] = {SENDS_NONSENSE, CUTS_SHORT, MISCOUNTS, IS_TOO_NEW,
					   EXAGGERATES};
	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		with_daemon(all[i], gets_no_sense);
}

static void survives_it(void)
{
	uint64_t before = now_ms();
	expect(set_tek(pthread_self(), 0) == EPERM && tek_critical_enter() == EPERM);
	expect(now_ms() - before < 900 && !is_fast(0));
}

static void a_daemon_that_dies_in_mid_request_holds_nobody_up(void **state)
{
	(void)state;
	with_daemon(DIES, survives_it);
}

static void is_refused_and_ordinary(void)
{
	expect(set_tek(pthread_self(), 0) == EPERM && !is_fast(0));
	expect(kernel_policy(0) == SCHED_OTHER);
}

static void leaves_all_the_same(void)
{
	struct waiter waiter;

	waiter_start(&waiter, NULL);
	expect(tek_critical_enter() == 0 && set_tek(waiter.thread, 0) == 0 && is_fast(waiter.tid));
	expect(tek_critical_leave() == 0 && kernel_policy(0) == SCHED_OTHER);
	expect(set_other(waiter.thread) == 0 && kernel_policy(waiter.tid) == SCHED_OTHER);
	waiter_end(&waiter);
}

static void a_thread_that_a_dying_daemon_has_made_fast_is_ordinary(void **state)
{
	(void)state;
	with_daemon(DIES_AFTERWARDS, is_refused_and_ordinary);
	with_daemon(DIES_AT_LEAVE, leaves_all_the_same);
}

static void outlives_it(void)
{
	struct waiter waiter;

	waiter_start(&waiter, NULL);
	expect(set_tek(waiter.thread, 0) == 0 && tek_critical_enter() == 0);
	restart_daemon();
	expect(!is_fast(0) && !is_fast(waiter.tid));
	expect(policy_of(waiter.thread) == SCHED_OTHER);
	expect(policy_of(pthread_self()) == SCHED_OTHER);
	expect(tek_critical_leave() == 0);
	expect(set_tek(waiter.thread, 0) == 0 && is_fast(waiter.tid));
	expect(fake->connections == 2);

	/* Noticed by the request itself. */
	restart_daemon();
	expect(set_tek(waiter.thread, -1) == 0 && is_fast(waiter.tid));
	expect(set_tek(pthread_self(), 0) == 0 && is_fast(0) && fake->connections == 3);
	waiter_end(&waiter);
}

static void when_the_daemon_is_restarted_threads_are_fast_no_more_and_may_ask_again(void **state)
{
	(void)state;
	with_daemon(GRANTS, outlives_it);
}

static void uses_up_its_budget(void)
{
	struct tek_attributes attributes;

	expect(tek_critical_enter() == 0);
	take_back(own_tid(), EDQUOT);
	expect(tek_thread_get_attributes(pthread_self(), &attributes) == 0);
	expect(attributes.policy == SCHED_OTHER);
	expect(set_tek(pthread_self(), 0) == EDQUOT);
	expect(tek_critical_leave() == 0);
	sleep_ms(150); /* longer than the period that the daemon reported */
	expect(set_tek(pthread_self(), 0) == 0 && is_fast(0));
}

static void receives_its_budget(void)
{
	listen_to_stderr(uses_up_its_budget);
	expect(strstr(printed, "used 110 ms of CPU time, of 100 ms that tekd allows it"));
}

static void a_thread_that_used_up_its_budget_is_taken_back_and_edquot_for_a_window(void **state)
{
	(void)state;
	with_daemon(GRANTS, receives_its_budget);
}

static void loses_its_grant(void)
{
	expect(set_tek(pthread_self(), 0) == 0);
	take_back(own_tid(), EPERM);
	expect(sched_getscheduler(0) == SCHED_OTHER);
}

static void receives_its_grant(void)
{
	listen_to_stderr(loses_its_grant);
	expect(strstr(printed, "the configuration was changed"));
	expect(set_tek(pthread_self(), 0) == 0 && is_fast(0));
}

static void a_thread_that_loses_its_grant_is_fast_no_more_and_the_reason_is_reported(void **state)
{
	(void)state;
	with_daemon(GRANTS, receives_its_grant);
}

static void is_taken_back_in_between(void)
{
	struct waiter waiter;

	waiter_start(&waiter, NULL);
	expect(set_tek(waiter.thread, 0) == 0);
	take_back(waiter.tid, ETIME);
	/* The notice lies before the reply, which is about a later request. */
	expect(set_tek(waiter.thread, -2) == 0 && is_fast(waiter.tid));
	expect(policy_of(waiter.thread) == SCHED_TEK);
	waiter_end(&waiter);
}

static void a_message_from_before_a_grant_does_not_undo_it(void **state)
{
	(void)state;
	with_daemon(GRANTS, is_taken_back_in_between);
}

static void set_capabilities(unsigned int permitted, unsigned int effective)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2] = {{.permitted = permitted, .effective = effective}};

	expect(syscall(SYS_capset, &header, caps) == 0);
}

static void take_up_capability(int signal)
{
	(void)signal;
	set_capabilities(1u << CAP_SYS_NICE, 1u << CAP_SYS_NICE);
}

/* A capability that the program takes up when the daemon grants it stands for the limit. */
static int run_with_latent_capability(void)
{
	struct sigaction action = {.sa_handler = take_up_capability};

	strcpy(tek__config.socket, fake->path);
	expect(sigaction(SIGUSR1, &action, NULL) == 0 && prctl(PR_SET_KEEPCAPS, 1) == 0);
	drop_privilege();
	set_capabilities(1u << CAP_SYS_NICE, 0);
	test_body();
	return 0;
}

static void is_lent_a_limit(void)
{
	expect(set_tek(pthread_self(), 0) == 0 && is_fast(0) && kernel_rt_priority(0) == 29);
	expect(tek_check() == 0);
	expect(asked(TEK_ASK_HELLO) == 1 && asked(TEK_ASK_ENTER) == 0);
	set_other(pthread_self());
	expect(!is_fast(0) && asked(TEK_ASK_LEAVE) == 0);
}

static void a_process_whose_limit_is_raised_switches_by_itself(void **state)
{
	(void)state;
	run_under_daemon(GRANTS_A_LIMIT, run_with_latent_capability, is_lent_a_limit);
}

static int switch_as_root(void)
{
	strcpy(tek__config.socket, fake->path);
	expect(tek_critical_enter() == 0 && is_fast(0) && fake->connections == 0);
	return 0;
}

static void a_process_that_may_itself_does_not_ask(void **state)
{
	(void)state;
	need_privilege();
	fake_start(GRANTS);
	int status = in_child(switch_as_root);
	fake_stop();
	assert_int_equal(status, 0);
}

static void a_socket_is_an_absolute_path_that_fits_into_an_address(void **state)
{
	struct tek_config config = {.socket = "/before"};
	char path[sizeof(config.socket) + 1];

	(void)state;
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	assert_false(tek__config_parse_socket(&config, path));
	assert_false(tek__config_parse_socket(&config, "run/tekd"));
	assert_string_equal(config.socket, "/before");
	path[sizeof(path) - 2] = '\0';
	assert_true(tek__config_parse_socket(&config, path));
	assert_string_equal(config.socket, path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_thread_that_may_not_itself_becomes_fast_by_the_daemon_and_is_given_back),
		cmocka_unit_test(the_daemon_is_asked_only_where_something_changes),
		cmocka_unit_test(a_timed_stay_is_ended_by_the_daemon_and_so_is_that_of_a_follower),
		cmocka_unit_test(a_time_that_is_over_at_once_is_no_error),
		cmocka_unit_test(a_thread_can_be_born_critical_and_leaves_when_it_ends),
		cmocka_unit_test(what_a_fast_thread_starts_is_not_fast),
		cmocka_unit_test(a_refusal_is_eperm_and_the_daemons_reason_is_reported_once),
		cmocka_unit_test(a_thread_too_many_is_eagain_and_may_ask_again),
		cmocka_unit_test(without_a_daemon_it_is_eperm_and_one_message_has_the_cure),
		cmocka_unit_test(a_silent_daemon_is_waited_for_once_and_not_long),
		cmocka_unit_test(a_daemon_that_sends_nonsense_is_not_believed_until_it_makes_sense),
		cmocka_unit_test(a_daemon_that_dies_in_mid_request_holds_nobody_up),
		cmocka_unit_test(a_thread_that_a_dying_daemon_has_made_fast_is_ordinary),
		cmocka_unit_test(
			when_the_daemon_is_restarted_threads_are_fast_no_more_and_may_ask_again),
		cmocka_unit_test(
			a_thread_that_used_up_its_budget_is_taken_back_and_edquot_for_a_window),
		cmocka_unit_test(
			a_thread_that_loses_its_grant_is_fast_no_more_and_the_reason_is_reported),
		cmocka_unit_test(a_message_from_before_a_grant_does_not_undo_it),
		cmocka_unit_test(a_process_whose_limit_is_raised_switches_by_itself),
		cmocka_unit_test(a_process_that_may_itself_does_not_ask),
		cmocka_unit_test(a_socket_is_an_absolute_path_that_fits_into_an_address),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
