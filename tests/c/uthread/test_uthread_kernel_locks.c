/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads wait for locks of files and for children */
#include "kernel_support.h"
#include "patience.h"

#include <sys/ptrace.h>
#include <sys/wait.h>

static void *lock_by_flock(void *unused)
{
	int file = open_it();
	atomic_store(&reached, 1);
	keep(flock(file, LOCK_EX));
	close(file);
	return unused;
}

static void a_thread_that_waits_for_a_lock_of_a_file_gets_it_from_another_thread(void **state)
{
	(void)state;
	int file = open_it();
	assert_int_equal(flock(file, LOCK_EX), 0);
	pthread_t thread = waiting(lock_by_flock);
	assert_int_equal(flock(file, LOCK_UN), 0);
	result_of(thread);
	assert_int_equal(result, 0);

	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	atomic_store(&reached, 0);
	assert_int_equal(fcntl(file, F_OFD_SETLK, &whole), 0);
	thread = waiting(lock_by_fcntl);
	whole.l_type = F_UNLCK;
	assert_int_equal(fcntl(file, F_OFD_SETLK, &whole), 0);
	result_of(thread);
	assert_int_equal(result, 0);
	close(file);
}

static void *lock_by_lockf(void *unused)
{
	int file = open_it();
	atomic_store(&reached, 1);
	keep(lockf(file, F_LOCK, 0));
	close(file);
	return unused;
}

static void a_thread_that_waits_for_a_lock_gets_it_from_another_process(void **state)
{
	int ends[2];
	char byte = 0;
	(void)state;
	assert_int_equal(pipe(ends), 0);
	int file = open_it();
	pid_t child = fork();
	if (child == 0) {
		struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
		/* The byte reports that the lock is held; SIGKILL releases it. */
		if (fcntl(file, F_SETLK, &whole) != 0 || write(ends[1], &byte, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ends[0], &byte, 1), 1);
	assert_int_equal(lockf(file, F_TLOCK, 0), -1);
	pthread_t thread = waiting(lock_by_lockf);
	kill(child, SIGKILL);
	result_of(thread);
	assert_int_equal(result, 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(file);
	close(ends[0]);
	close(ends[1]);
}

static void *wait_for_any(void *unused)
{
	int status;
	atomic_store(&reached, 1);
	keep(waitpid(-1, &status, 0));
	return unused;
}

static void a_thread_that_waits_for_any_child_does_not_hold_up_other_ones(void **state)
{
	(void)state;
	pid_t child = fork();
	if (child == 0) {
		for (;;)
			pause();
	}
	pthread_t thread = waiting(wait_for_any);
	kill(child, SIGKILL);
	result_of(thread);
	assert_int_equal(result, child);
}

static int traced_status;

static void *wait_for_traced(void *child)
{
	atomic_store(&reached, 1);
	keep(waitpid(*(pid_t *)child, &traced_status, 0));
	return NULL;
}

/* It asks for that itself, when its parent waits already. */
static void a_child_that_is_traced_is_waited_for_when_it_stops(void **state)
{
	(void)state;
	int file[2];
	char byte = 0;
	assert_int_equal(pipe(file), 0);
	pid_t child = fork();
	if (child == 0) {
		block_all_but(SIGUSR1);
		if (read(file[0], &byte, 1) == 1 && ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0)
			raise(SIGUSR1);
		_exit(1);
	}
	pthread_t thread = start(wait_for_traced, &child);
	assert_true(becomes(&reached, 1));
	nap(20);
	assert_int_equal(write(file[1], &byte, 1), 1);
	result_of(thread);
	assert_int_equal(result, child);
	assert_true(WIFSTOPPED(traced_status) && WSTOPSIG(traced_status) == SIGUSR1);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &traced_status, 0), child);
	assert_true(WIFSIGNALED(traced_status));
	close(file[0]);
	close(file[1]);
}

static void handlers_interrupt_locks_as_they_were_installed(void **state)
{
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	(void)state;
	int file = open_it();
	assert_int_equal(flock(file, LOCK_EX), 0);
	sigaction(SIGUSR1, &action, NULL);
	pthread_t thread = waiting(lock_by_flock);
	assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
	assert_true(becomes(&handled, 1));
	nap(10);
	flock(file, LOCK_UN);
	result_of(thread);
	assert_int_equal(result, 0);

	action.sa_flags = 0;
	sigaction(SIGUSR1, &action, NULL);
	assert_int_equal(flock(file, LOCK_EX), 0);
	atomic_store(&reached, 0);
	atomic_store(&handled, 0);
	atomic_store(&returned, 0);
	interrupt_call_of(waiting(lock_by_flock));
	close(file);
}

int main(void)
{
	limit_to(100);
	const struct CMUnitTest tests[] = {
		TEST(a_thread_that_waits_for_a_lock_of_a_file_gets_it_from_another_thread),
		TEST(a_thread_that_waits_for_a_lock_gets_it_from_another_process),
		TEST(a_thread_that_waits_for_any_child_does_not_hold_up_other_ones),
		TEST(a_child_that_is_traced_is_waited_for_when_it_stops),
		TEST(handlers_interrupt_locks_as_they_were_installed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
