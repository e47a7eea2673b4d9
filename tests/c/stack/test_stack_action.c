/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program that sets actions for SIGSEGV itself: the actions that it reads and gets. */
#include "overflow_support.h"

#include <spawn.h>

static int see_own_action(void)
{
	struct sigaction action, old;
	sighandler_t first = signal(SIGSEGV, a_handler);

	watch();
	if (first != SIG_DFL || sigaction(SIGSEGV, NULL, &old) || old.sa_handler != a_handler ||
	    !(old.sa_flags & SA_RESTART) || old.sa_flags & (SA_SIGINFO | SA_ONSTACK) ||
	    sigismember(&old.sa_mask, SIGSEGV) != 1 || sigismember(&old.sa_mask, SIGUSR1) != 0)
		return 1;
	if (signal(SIGSEGV, SIG_DFL) != a_handler || signal(SIGSEGV, recover) != SIG_DFL)
		return 2;
	memset(&action, 0, sizeof(action));
	action.sa_sigaction = leave_well;
	action.sa_flags = SA_SIGINFO | SA_NODEFER;
	sigaddset(&action.sa_mask, SIGUSR1);
	if (sigaction(SIGSEGV, &action, &old) || old.sa_handler != recover)
		return 3;
	if (sigaction(SIGSEGV, NULL, &old) || old.sa_sigaction != leave_well ||
	    (old.sa_flags & (SA_SIGINFO | SA_NODEFER | SA_ONSTACK | SA_RESTART)) !=
		    (SA_SIGINFO | SA_NODEFER) ||
	    sigismember(&old.sa_mask, SIGUSR1) != 1 || sigismember(&old.sa_mask, SIGSEGV) != 0)
		return 4;
	errno = 0;
	if (signal(SIGSEGV, SIG_ERR) != SIG_ERR || errno != EINVAL ||
	    sigaction(SIGKILL, &action, NULL) != -1 || errno != EINVAL ||
	    signal(SIGKILL, a_handler) != SIG_ERR || sigaction(4711, NULL, &old) != -1)
		return 5;
	if (signal(SIGUSR1, a_handler) != SIG_DFL || signal(SIGUSR1, SIG_IGN) != a_handler)
		return 6;
	return 0;
}

static void the_program_sees_the_action_that_it_set(void **state)
{
	(void)state;
	run_child(&ended, see_own_action);
	assert_exited(&ended, 0);
}

static int set_many(void)
{
	struct sigaction action = {.sa_handler = a_handler}, old;

	watch();
	for (int i = 1; i <= 200; i++) {
		action.sa_mask = (sigset_t){0};
		for (int bit = 0; bit < 8; bit++)
			if (i >> bit & 1)
				sigaddset(&action.sa_mask, SIGRTMIN + bit);
		if (sigaction(SIGSEGV, &action, NULL) || sigaction(SIGSEGV, NULL, &old) ||
		    old.sa_handler != a_handler || memcmp(&old.sa_mask, &action.sa_mask, 8) != 0)
			return 1;
		watch();
		raise(SIGSEGV);
		if (calls != i)
			return 2;
	}
	return 0;
}

static void a_program_may_set_hundreds_of_different_actions(void **state)
{
	(void)state;
	run_child(&ended, set_many);
	assert_exited(&ended, 0);
}

static int overflow_after_many_actions(void)
{
	struct {
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(void);
		uint64_t mask;
	} first;

	setrlimit(RLIMIT_CORE, &(struct rlimit){0});
	if (syscall(SYS_rt_sigaction, SIGSEGV, NULL, &first, 8) || set_many())
		return 1;
	/* Past TEK. */
	if (syscall(SYS_rt_sigaction, SIGSEGV, &first, NULL, 8))
		return 2;
	return overflow_in_thread();
}

static void an_action_after_too_many_earlier_ones_is_watched_again(void **state)
{
	(void)state;
	run_child(&ended, overflow_after_many_actions);
	assert_killed_by(&ended, SIGSEGV);
	assert_true(ended.events > 3);
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* sigset(), ssignal() */
static int set_in_all_ways(void)
{
	struct {
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(void);
		uint64_t mask;
	} ours, theirs;
	struct sigaction old;

	watch();
	if (sysv_signal(SIGSEGV, a_handler) != SIG_DFL || sigset(SIGSEGV, a_handler) != a_handler ||
	    sigset(SIGSEGV, SIG_HOLD) != a_handler || sigset(SIGSEGV, recover) != SIG_HOLD ||
	    ssignal(SIGSEGV, a_handler) != recover)
		return 1;
	if (syscall(SYS_rt_sigaction, SIGSEGV, NULL, &ours, 8) || ours.handler == a_handler)
		return 2;
	theirs = ours;
	theirs.handler = a_handler;
	if (syscall(SYS_rt_sigaction, SIGSEGV, &theirs, NULL, 8))
		return 3;
	raise(SIGSEGV);
	if (calls != 1 || sigaction(SIGSEGV, NULL, &old) || old.sa_handler != a_handler)
		return 4;
	/* Put back what was there. */
	if (syscall(SYS_rt_sigaction, SIGSEGV, &ours, NULL, 8))
		return 5;
	raise(SIGSEGV);
	if (calls != 2 || sigaction(SIGSEGV, NULL, &old) || old.sa_flags & SA_SIGINFO)
		return 6;
	return 0;
}

static void all_ways_to_set_a_handler_show_the_program_its_own(void **state)
{
	(void)state;
	run_child(&ended, set_in_all_ways);
	assert_exited(&ended, 0);
}

static int reset_by_first_call(void)
{
	struct sigaction action = {.sa_handler = a_handler, .sa_flags = SA_RESETHAND | SA_NODEFER};
	struct sigaction old;

	watch();
	sigaction(SIGSEGV, &action, NULL);
	raise(SIGSEGV);
	if (calls != 1 || sigaction(SIGSEGV, NULL, &old) || old.sa_handler != SIG_DFL)
		return 1;
	raise(SIGSEGV);
	return 2;
}

static void a_handler_for_one_time_is_called_once(void **state)
{
	(void)state;
	run_child(&ended, reset_by_first_call);
	assert_killed_by(&ended, SIGSEGV);
}

static void *raise_in_fitted(void *handler_flags)
{
	struct sigaction action = {.sa_handler = a_handler};

	action.sa_flags = *(const int *)handler_flags;
	fit_self(0);
	sigaction(SIGSEGV, &action, NULL);
	pthread_kill(pthread_self(), SIGSEGV);
	pthread_kill(pthread_self(), SIGSEGV);
	return NULL;
}

static int sent_to_handlers(void)
{
	int flags = 0;
	join(start_with_stack(STACK_BYTES, raise_in_fitted, &flags));
	if (calls != 2)
		return 1;
	flags = SA_ONSTACK;
	join(start_with_stack(STACK_BYTES, raise_in_fitted, &flags));
	return calls == 4 ? 0 : 2;
}

static int sent_to_default(void)
{
	watch();
	kill(getpid(), SIGSEGV);
	sleep(10);
	return 1;
}

static int sent_to_ignorer(void)
{
	signal(SIGSEGV, SIG_IGN);
	watch();
	kill(getpid(), SIGSEGV);
	watch();
	kill(getpid(), SIGSEGV);
	return 0;
}

static void a_signal_that_was_sent_does_what_it_would_do_without_tek(void **state)
{
	(void)state;
	run_child(&ended, sent_to_handlers);
	assert_exited(&ended, 0);
	run_child(&ended, sent_to_default);
	assert_killed_by(&ended, SIGSEGV);
	run_child(&ended, sent_to_ignorer);
	assert_exited(&ended, 0);
}

/* A crash reporter's last act: the same signal again, with the default action. */
static void report_and_die(int number, siginfo_t *info, void *context)
{
	(void)context;
	signal(number, SIG_DFL);
	syscall(SYS_rt_tgsigqueueinfo, getpid(), own_tid(), number, info);
}

static int crash_with_reporter(void)
{
	set(report_and_die, SA_ONSTACK);
	return overflow_in_thread();
}

static void a_crash_reporter_that_sends_the_signal_again_dies_of_it(void **state)
{
	(void)state;
	run_child(&ended, crash_with_reporter);
	assert_killed_by(&ended, SIGSEGV);
}

static int spawn_children(void)
{
	char *arguments[] = {"sh", "-c", "kill -SEGV $$; exit 3", NULL};
	int status;

	signal(SIGSEGV, a_handler);
	watch();
	for (int i = 0; i < 3; i++) {
		pid_t pid = -1;
		if (i == 0) {
			posix_spawn(&pid, "/bin/sh", NULL, NULL, arguments, environ);
		} else if (i == 1) {
			pid = fork();
			if (pid == 0) {
				signal(SIGSEGV, SIG_DFL);
				*(volatile int *)NULL = 0;
			}
		} else {
			pid = vfork();
			if (pid == 0) {
				signal(SIGSEGV, SIG_DFL);
				execve("/bin/sh", arguments, environ);
				_exit(4);
			}
		}
		waitpid(pid, &status, 0);
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSEGV)
			return 1 + i;
		/* The child's change of its own action does not affect the parent. */
		raise(SIGSEGV);
		if (calls != i + 1)
			return 11 + i;
	}
	return 0;
}

static void children_of_all_kinds_have_their_own_actions(void **state)
{
	(void)state;
	run_child(&ended, spawn_children);
	assert_exited(&ended, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_program_sees_the_action_that_it_set),
		cmocka_unit_test(a_program_may_set_hundreds_of_different_actions),
		cmocka_unit_test(an_action_after_too_many_earlier_ones_is_watched_again),
		cmocka_unit_test(all_ways_to_set_a_handler_show_the_program_its_own),
		cmocka_unit_test(a_handler_for_one_time_is_called_once),
		cmocka_unit_test(a_signal_that_was_sent_does_what_it_would_do_without_tek),
		cmocka_unit_test(a_crash_reporter_that_sends_the_signal_again_dies_of_it),
		cmocka_unit_test(children_of_all_kinds_have_their_own_actions),
	};
	return cmocka_run_group_tests_name("stack_action", tests, NULL, NULL);
}
