/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The policies of the children, threads and processes, of a Fast thread. */
#include "support.h"

#include "mediate/rt.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>

/* The attributes that a child, thread or process, reads of itself. */
struct seen {
	int policy;
	int nice;
	bool reset_on_fork;
};

static void *see(void *argument)
{
	*(struct seen *)argument = (struct seen){
		.policy = kernel_policy(0),
		.nice = kernel_nice(0),
		.reset_on_fork = kernel_reset_on_fork(0),
	};
	return NULL;
}

static void assert_like_before(const struct seen *seen, int policy, int nice)
{
	assert_int_equal(seen->policy, policy);
	assert_int_equal(seen->nice, nice);
	assert_false(seen->reset_on_fork);
}

static struct seen *shared_seen;

static int see_in_fork(void)
{
	see(shared_seen);
	return 0;
}

/* A Fast thread that had `policy` and `nice` starts children of every kind. */
static void assert_children_begin_with(int policy, int nice)
{
	const struct sched_param zero = {.sched_priority = 0};
	struct seen seen;
	pthread_t thread;
	char command[128];

	shared_seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	syscall(SYS_sched_setscheduler, 0, policy, &zero);
	setpriority(PRIO_PROCESS, 0, nice);
	assert_int_equal(tek_critical_enter(), 0);

	assert_int_equal(pthread_create(&thread, NULL, see, &seen), 0);
	pthread_join(thread, NULL);
	assert_like_before(&seen, policy, nice);

	assert_int_equal(in_child(see_in_fork), 0);
	assert_like_before(shared_seen, policy, nice);

	/* Fields 19 and 41 of its stat are nice value and policy. */
	snprintf(command, sizeof(command),
		 "set -- $(cat /proc/self/stat); [ ${19} = %d ] && [ ${41} = %d ]", nice, policy);
	assert_int_equal(system(command), 0);

	char *const arguments[] = {"sh", "-c", command, NULL};
	int status;
	pid_t pid;
	assert_int_equal(posix_spawn(&pid, "/bin/sh", NULL, NULL, arguments, environ), 0);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);

	pid = vfork();
	if (pid == 0) {
		execv("/bin/sh", arguments);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);

	FILE *pipe = popen(command, "r");
	assert_int_equal(pclose(pipe), 0);

	assert_true(is_fast(0));
	assert_int_equal(tek_critical_leave(), 0);
	assert_int_equal(kernel_policy(0), policy);
	assert_int_equal(kernel_nice(0), nice);
	munmap(shared_seen, 4096);
}

static void begin_with_what_it_had_before(void)
{
	assert_children_begin_with(SCHED_OTHER, 0);
	assert_children_begin_with(SCHED_OTHER, 5);
	assert_children_begin_with(SCHED_BATCH, 3);
	if (geteuid() == 0)
		assert_children_begin_with(SCHED_OTHER, -5);
	set_other(pthread_self());
	setpriority(PRIO_PROCESS, 0, 0);
}

static void children_of_a_fast_thread_begin_with_what_it_had_before(void **state)
{
	(void)state;
	need_real_time();
	begin_with_what_it_had_before();
}

/*
 * A process with RLIMIT_RTPRIO alone may not clear the kernel's flag, so it does
 * without.  A guard that does not exist stands for one that may not.
 */
static void children_begin_so_without_the_kernels_reset_on_fork_flag_too(void **state)
{
	(void)state;
	need_real_time();
	tek__rt_learn_flag(-1);
	assert_int_equal(tek_critical_enter(), 0);
	assert_false(kernel_reset_on_fork(0));
	assert_int_equal(tek_critical_leave(), 0);
	begin_with_what_it_had_before();
}

enum { NO_FILTERS = 2, REFUSED };

static bool is_creating, has_fast_child;

static void *create_children(void *argument)
{
	while (__atomic_load_n(&is_creating, __ATOMIC_RELAXED)) {
		struct seen seen;
		pthread_t child;

		if (pthread_create(&child, NULL, see, &seen) == 0) {
			pthread_join(child, NULL);
			has_fast_child |= seen.policy != SCHED_OTHER;
		}
	}
	return argument;
}

static void *end_the_stay(void *fast)
{
	sleep_ms(20);
	set_other(*(pthread_t *)fast);
	return NULL;
}

static void a_stay_that_ends_before_a_vforked_child_executes_is_not_its_programs(void **state)
{
	char *const arguments[] = {
		"sh", "-c", "set -- $(cat /proc/self/stat); [ ${19} = 0 ] && [ ${41} = 0 ]", NULL};
	pthread_t self = pthread_self(), other;
	int status;

	(void)state;
	need_real_time();
#if !(defined(__x86_64__) || defined(__i386__) || defined(__arm__) || defined(__aarch64__))
	print_message("# on this processor vfork() is the C library's\n");
	skip();
#endif
	assert_int_equal(set_tek(self, 0), 0);
	tek__rt_learn_flag(-1);
	assert_int_equal(set_other(self), 0);
	assert_int_equal(set_tek(self, 0), 0);
	const pid_t parent = own_tid();
	pthread_create(&other, NULL, end_the_stay, &self);
	const pid_t pid = vfork();
	if (pid == 0) {
		while (kernel_policy(parent) != SCHED_OTHER)
			sleep_ms(1);
		execv("/bin/sh", arguments);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	pthread_join(other, NULL);
	assert_int_equal(status, 0);
}

/* As where the process has only RLIMIT_RTPRIO: the guard finds that it may not use the flag. */
static bool have_no_right_to_the_flag(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_setscheduler, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SCHED_FIFO | SCHED_RESET_ON_FORK, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(steps) / sizeof(*steps), .filter = steps};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

/* The first Fast thread of a process, which makes the guard. */
static int become_fast_while_it_creates(void)
{
	pthread_t creator;

	if (!have_no_right_to_the_flag())
		return NO_FILTERS;
	is_creating = true;
	pthread_create(&creator, NULL, create_children, NULL);
	sleep_ms(1);
	const int error = set_tek(creator, 0);
	sleep_ms(1);
	__atomic_store_n(&is_creating, false, __ATOMIC_RELAXED);
	pthread_join(creator, NULL);
	return error ? REFUSED : has_fast_child;
}

static void a_thread_that_becomes_fast_while_it_creates_threads_has_no_fast_child(void **state)
{
	(void)state;
	need_real_time();
	for (int i = 0; i < 100; i++) {
		const int result = in_child(become_fast_while_it_creates);

		if (result == NO_FILTERS) {
			print_message("# needs seccomp filters\n");
			skip();
		}
		assert_int_equal(result, 0);
	}
}

/* The creator may have made the child Fast before the child has run at all. */
static void a_fast_thread_can_create_threads_that_are_fast(void **state)
{
	pthread_attr_t critical;

	(void)state;
	need_real_time();
	pthread_attr_init(&critical);
	pthread_attr_setschedpolicy(&critical, SCHED_TEK);
	pthread_attr_setinheritsched(&critical, PTHREAD_EXPLICIT_SCHED);
	setpriority(PRIO_PROCESS, 0, 5);
	assert_int_equal(tek_critical_enter(), 0);
	for (int i = 0; i < 100; i++) {
		struct waiter waiter;
		waiter_start_unsynchronised(&waiter, i % 2 ? &critical : NULL);
		if (i % 2 == 0)
			assert_int_equal(set_tek(waiter.thread, 0), 0);
		pthread_barrier_wait(&waiter.ready);
		assert_true(is_fast(waiter.tid));
		assert_int_equal(set_other(waiter.thread), 0);
		assert_int_equal(kernel_policy(waiter.tid), SCHED_OTHER);
		assert_int_equal(kernel_nice(waiter.tid), 5);
		waiter_end(&waiter);
	}
	assert_int_equal(tek_critical_leave(), 0);
	setpriority(PRIO_PROCESS, 0, 0);
	pthread_attr_destroy(&critical);
}

static bool stop_toggling;

static void *toggle(void *argument)
{
	while (!__atomic_load_n(&stop_toggling, __ATOMIC_RELAXED))
		if (tek_critical_enter() == 0)
			tek_critical_leave();
	return argument;
}

static void a_thread_that_follows_while_it_starts_processes_gets_its_own_policy_back(void **state)
{
	pthread_t leader;

	(void)state;
	need_real_time();
	stop_toggling = false;
	tek_thread_mark(pthread_self(), 1);
	pthread_create(&leader, NULL, toggle, NULL);
	for (int i = 0; i < 20; i++)
		assert_int_equal(system("exit 0"), 0);
	__atomic_store_n(&stop_toggling, true, __ATOMIC_RELAXED);
	pthread_join(leader, NULL);
	tek_thread_mark(pthread_self(), 0);
	assert_int_equal(kernel_policy(0), SCHED_OTHER);
}

static void explicit_attributes_of_a_child_are_respected(void **state)
{
	const struct sched_param fifo = {.sched_priority = 3};
	pthread_attr_t attr;
	struct seen seen;
	pthread_t thread;

	(void)state;
	need_real_time();
	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
	pthread_attr_setschedparam(&attr, &fifo);
	tek_critical_enter();
	assert_int_equal(pthread_create(&thread, &attr, see, &seen), 0);
	pthread_join(thread, NULL);
	tek_critical_leave();
	pthread_attr_destroy(&attr);
	assert_like_before(&seen, SCHED_FIFO, 0);
}

static void a_failed_exec_leaves_a_fast_thread_fast(void **state)
{
	(void)state;
	need_real_time();
	tek_critical_enter();
	assert_int_equal(execl("/nonexistent/program", "program", NULL), -1);
	assert_int_equal(errno, ENOENT);
	assert_true(is_fast(0));
	tek_critical_leave();
	assert_false(is_fast(0));
}

static int exec_while_fast(void)
{
	if (tek_critical_enter())
		return 1;
	/* Field 41 is the policy: the new program has not asked for anything. */
	execl("/bin/sh", "sh", "-c", "set -- $(cat /proc/$$/stat); exit ${41}", NULL);
	return 2;
}

static int exec_with_lists(void)
{
	char *const environment[] = {"WHO=execle", NULL};
	int status;

	/* Every function of the family hands over all its arguments and the right environment. */
	setenv("WHO", "inherited", 1);
	for (int way = 0; way < 3; way++) {
		fflush(NULL);
		if (fork() == 0) {
			if (way == 0)
				execl("/bin/sh", "sh", "-c", "[ $#$1$2$WHO = 2abinherited ]", "x",
				      "a", "b", NULL);
			else if (way == 1)
				execlp("sh", "sh", "-c", "[ $#$1$2$WHO = 2abinherited ]", "x", "a",
				       "b", NULL);
			else
				execle("/bin/sh", "sh", "-c", "[ $#$1$2$WHO = 2abexecle ]", "x",
				       "a", "b", NULL, environment);
			_exit(99);
		}
		if (wait(&status) < 0 || status)
			return way + 1;
	}
	return 0;
}

static void lists_of_arguments_reach_the_program(void **state)
{
	(void)state;
	assert_int_equal(in_child(exec_with_lists), 0);
}

static void a_program_started_by_exec_is_not_fast(void **state)
{
	(void)state;
	need_real_time();
	assert_int_equal(in_child(exec_while_fast), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(children_of_a_fast_thread_begin_with_what_it_had_before),
		cmocka_unit_test(explicit_attributes_of_a_child_are_respected),
		cmocka_unit_test(a_fast_thread_can_create_threads_that_are_fast),
		cmocka_unit_test(
			a_thread_that_follows_while_it_starts_processes_gets_its_own_policy_back),
		cmocka_unit_test(a_failed_exec_leaves_a_fast_thread_fast),
		cmocka_unit_test(lists_of_arguments_reach_the_program),
		cmocka_unit_test(a_program_started_by_exec_is_not_fast),
		cmocka_unit_test(
			a_thread_that_becomes_fast_while_it_creates_threads_has_no_fast_child),
		cmocka_unit_test(
			a_stay_that_ends_before_a_vforked_child_executes_is_not_its_programs),
		cmocka_unit_test(children_begin_so_without_the_kernels_reset_on_fork_flag_too),
		cmocka_unit_test(a_fast_thread_can_create_threads_that_are_fast),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
