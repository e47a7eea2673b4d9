/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Fitted threads that block SIGSEGV. */
#include "overflow_support.h"

#include <sys/wait.h>

static void block_all(sigset_t *before)
{
	sigset_t all;
	sigfillset(&all);
	if (pthread_sigmask(SIG_SETMASK, &all, before))
		abort();
}

static bool is_segv_blocked(void)
{
	sigset_t now;
	return pthread_sigmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGSEGV) == 1 &&
	       sigprocmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGSEGV) == 1;
}

static int overflow_blocked_by_creator(void)
{
	set(leave_well, SA_ONSTACK);
	block_all(NULL);
	return overflow_in_thread();
}

static void *block_and_overflow(void *unused)
{
	fit_self(0);
	block_all(NULL);
	if (!is_segv_blocked())
		_exit(9);
	recurse(ENDLESS);
	return unused;
}

static int overflow_blocked_by_itself(void)
{
	set(leave_well, SA_ONSTACK);
	return join(start_with_stack(STACK_BYTES, block_and_overflow, NULL));
}

static void a_thread_that_blocks_all_signals_is_reported_and_dies_without_its_handler(void **state)
{
	(void)state;
	run_child(&ended, overflow_blocked_by_creator);
	assert_killed_by(&ended, SIGSEGV);
	assert_true(ended.events > 3);
	run_child(&ended, overflow_blocked_by_itself);
	assert_killed_by(&ended, SIGSEGV);
	assert_true(ended.events > 3);
}

static bool is_pending(void)
{
	sigset_t pending;
	return sigpending(&pending) == 0 && sigismember(&pending, SIGSEGV) == 1;
}

static void *send_while_blocked(void *blocked_by_creator)
{
	sigset_t segv, old;

	fit_self(0);
	sigemptyset(&segv);
	sigaddset(&segv, SIGSEGV);
	if (*(bool *)blocked_by_creator ? !is_segv_blocked() : is_segv_blocked())
		_exit(1);
	for (int i = 1; i <= 3; i++) {
		if (sigprocmask(i == 2 ? SIG_SETMASK : SIG_BLOCK, &segv, &old) ||
		    !is_segv_blocked())
			_exit(2);
		pthread_kill(pthread_self(), SIGSEGV);
		if (calls != i - 1 || !is_pending())
			_exit(3);
		block_all(&old);
		if (!is_segv_blocked() || sigismember(&old, SIGSEGV) != 1)
			_exit(4);
		if (pthread_sigmask(SIG_UNBLOCK, &segv, &old) || sigismember(&old, SIGSEGV) != 1 ||
		    is_segv_blocked() || calls != i || is_pending())
			_exit(5);
	}
	return NULL;
}

static int send_to_blocked(void)
{
	bool blocked = false;

	signal(SIGSEGV, a_handler);
	join(start_with_stack(STACK_BYTES, send_while_blocked, &blocked));
	calls = 0;
	blocked = true;
	block_all(NULL);
	join(start_with_stack(STACK_BYTES, send_while_blocked, &blocked));
	return is_segv_blocked() ? 0 : 6;
}

static void a_signal_that_is_sent_to_a_thread_that_blocks_it_waits(void **state)
{
	(void)state;
	run_child(&ended, send_to_blocked);
	assert_exited(&ended, 0);
}

static void *recover_with_mask(void *unused)
{
	sigset_t segv, old;

	(void)unused;
	fit_self(0);
	sigemptyset(&segv);
	sigaddset(&segv, SIGSEGV);
	for (int i = 0; i < 3; i++) {
		pthread_sigmask(SIG_BLOCK, &segv, &old);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
		if (is_segv_blocked())
			_exit(9);
		if (sigsetjmp(recovery, 1) == 0)
			*(volatile int *)NULL = 0;
	}
	return NULL;
}

/* Blocks everything in its handler, where SIGSEGV is blocked already, and jumps out. */
static void block_and_recover(int number)
{
	block_all(NULL);
	recover(number);
}

static int recover_from_masked(void)
{
	struct sigaction action = {.sa_handler = block_and_recover, .sa_flags = SA_ONSTACK};
	sigaction(SIGSEGV, &action, NULL);
	join(start_with_stack(STACK_BYTES, recover_with_mask, NULL));
	return calls == 3 ? 0 : 1;
}

static void a_handler_that_blocks_signals_and_jumps_out_is_called_again(void **state)
{
	(void)state;
	run_child(&ended, recover_from_masked);
	assert_exited(&ended, 0);
}

/* A child of vfork() shares the memory of its parent, but has a mask of its own. */
static void *let_a_vfork_child_block_all(void *unused)
{
	int status;

	fit_self(0);
	pid_t child = vfork();
	if (child == 0) {
		block_all(NULL);
		_exit(is_segv_blocked() ? 7 : 8);
	}
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
		_exit(1);
	if (is_segv_blocked())
		_exit(2);
	pthread_kill(pthread_self(), SIGSEGV);
	if (calls != 1)
		_exit(3);
	return unused;
}

static int let_a_vfork_child_of_a_fitted_thread_block_all(void)
{
	signal(SIGSEGV, a_handler);
	return join(start_with_stack(STACK_BYTES, let_a_vfork_child_block_all, NULL));
}

static void what_a_vfork_child_blocks_its_parent_does_not(void **state)
{
	(void)state;
	run_child(&ended, let_a_vfork_child_of_a_fitted_thread_block_all);
	assert_exited(&ended, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_thread_that_blocks_all_signals_is_reported_and_dies_without_its_handler),
		cmocka_unit_test(a_signal_that_is_sent_to_a_thread_that_blocks_it_waits),
		cmocka_unit_test(a_handler_that_blocks_signals_and_jumps_out_is_called_again),
		cmocka_unit_test(what_a_vfork_child_blocks_its_parent_does_not),
	};
	return cmocka_run_group_tests_name("stack_mask", tests, NULL, NULL);
}
