/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Functions of the C library that use the descriptor of a thread with storage of its own. */
#include "patience.h"
#include "tls_support.h"

#include "uthread/setxid.h"

/* qemu-user has no CPUs of its own; a child of a program with threads can make no threads there. */
static void need_a_kernel(void)
{
	if (!getenv("TEK_EMULATED"))
		return;
	print_message("# needs a kernel, and not qemu-user\n");
	skip();
}

static void change_user(void *argument)
{
	*(bool *)argument = setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1) == 0;
}

static void *wait_at(void *barrier)
{
	pthread_barrier_wait(barrier);
	pthread_barrier_wait(barrier);
	return NULL;
}

static void setuid_returns_in_a_thread_with_storage_of_its_own(void **state)
{
	(void)state;
	pthread_barrier_t barrier;
	pthread_t kernel_thread;
	bool changed = false;

	pthread_barrier_init(&barrier, NULL, 2);
	assert_int_equal(pthread_create(&kernel_thread, NULL, wait_at, &barrier), 0);
	pthread_barrier_wait(&barrier);
	tek_ut__setxid_start();
	limit_to(20);
	raw_run_with_tls(change_user, &changed);
	alarm(0);
	assert_true(changed);
	pthread_barrier_wait(&barrier);
	pthread_join(kernel_thread, NULL);
}

static void *do_nothing(void *argument)
{
	return argument;
}

static int grandchild(void)
{
	pthread_t kernel_thread;

	if (pthread_create(&kernel_thread, NULL, do_nothing, NULL) ||
	    pthread_join(kernel_thread, NULL))
		return 1;
	return 0;
}

static int child(void)
{
	int status;

	tek_ut__tls_after_fork();
	if (grandchild() || setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1))
		return 1;
	bool new = false;
	raw_run_with_tls(note_whether_new, &new);
	if (!new)
		return 2;
	pid_t pid = fork();
	if (pid == 0)
		_exit(grandchild());
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

static void fork_in_thread(void *argument)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(child());
	*(int *)argument = waitpid(pid, &status, 0) == pid && WIFEXITED(status)
				   ? WEXITSTATUS(status)
				   : -1;
}

static void a_child_of_fork_goes_on_in_the_storage_of_the_thread_that_forked(void **state)
{
	(void)state;
	pthread_barrier_t barrier;
	pthread_t kernel_thread;
	int result = -1;

	need_a_kernel();
	pthread_barrier_init(&barrier, NULL, 2);
	assert_int_equal(pthread_create(&kernel_thread, NULL, wait_at, &barrier), 0);
	pthread_barrier_wait(&barrier);
	raw_run_with_tls(fork_in_thread, &result);
	assert_int_equal(result, 0);
	pthread_barrier_wait(&barrier);
	pthread_join(kernel_thread, NULL);
}

static void note_cpu(void *argument)
{
	*(int *)argument = sched_getcpu();
}

static void sched_getcpu_returns_where_a_thread_runs(void **state)
{
	(void)state;
	cpu_set_t before, one;

	need_a_kernel();
	sched_getaffinity(0, sizeof(before), &before);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		int seen = -1;
		if (!CPU_ISSET(cpu, &before))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		raw_run_with_tls(note_cpu, &seen);
		assert_int_equal(seen, cpu);
		assert_int_equal(sched_getcpu(), cpu);
	}
	sched_setaffinity(0, sizeof(before), &before);
}

static void lock_stdout(void *argument)
{
	*(bool *)argument = ftrylockfile(stdout) == 0;
	if (*(bool *)argument)
		funlockfile(stdout);
}

static void a_stream_that_another_thread_has_locked_is_locked(void **state)
{
	(void)state;
	bool got;

	flockfile(stdout);
	raw_run_with_tls(lock_stdout, &got);
	assert_false(got);
	funlockfile(stdout);
	raw_run_with_tls(lock_stdout, &got);
	assert_true(got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(setuid_returns_in_a_thread_with_storage_of_its_own),
		cmocka_unit_test(a_child_of_fork_goes_on_in_the_storage_of_the_thread_that_forked),
		cmocka_unit_test(sched_getcpu_returns_where_a_thread_runs),
		cmocka_unit_test(a_stream_that_another_thread_has_locked_is_locked),
	};
	struct tek_uthread first = {.tls = 0};

	if (!tek_ut__tls_available()) {
		print_message("1..0 # SKIP threads can have no storage of their own here\n");
		return 77;
	}
	tek_ut__tls_adopt(&first);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
