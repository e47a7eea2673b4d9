/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* gettid() without a system call is right in every kind of child, and in its parent again. */
#include "rounds.h"
#include "support.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>

static bool is_right(void)
{
	return gettid() == own_tid() && tek_gettid() == own_tid();
}

static bool is_right_twice(void)
{
	return is_right() && is_right();
}

/* The exit status of the child shows whether it was right. */
static void assert_child_was_right(pid_t pid)
{
	int status;
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_true(is_right_twice());
}

static void *thread_main(void *argument)
{
	*(bool *)argument = is_right_twice();
	return NULL;
}

static void it_is_right_in_every_thread(void **state)
{
	pthread_t thread;
	bool right = false;

	(void)state;
	assert_true(is_right_twice());
	assert_int_equal(pthread_create(&thread, NULL, thread_main, &right), 0);
	pthread_join(thread, NULL);
	assert_true(right);
}

static void it_is_right_in_the_child_of_fork(void **state)
{
	(void)state;
	gettid();
	pid_t pid = fork();
	if (pid == 0)
		_exit(!is_right_twice());
	assert_child_was_right(pid);
}

static void it_is_right_in_the_child_of__Fork(void **state)
{
	(void)state;
	gettid();
	pid_t pid = _Fork();
	if (pid == 0)
		_exit(!is_right_twice());
	assert_child_was_right(pid);
}

static void it_is_right_in_the_child_of_vfork(void **state)
{
	(void)state;
	gettid();
	pid_t pid = vfork();
	if (pid == 0)
		_exit(!is_right_twice());
	assert_child_was_right(pid);
}

/* By itself, so that no variable is alive across vfork(). */
static pid_t start_and_end_child(void)
{
	pid_t pid = vfork();
	if (pid == 0)
		_exit(!is_right_twice());
	return pid;
}

static void ask(int signal)
{
	(void)signal;
	gettid();
}

static void it_is_right_in_the_child_of_vfork_whenever_a_handler_asks_too(void **state)
{
	struct itimerval often = {.it_interval = {.tv_usec = 100}, .it_value = {.tv_usec = 100}};
	const struct itimerval never = {0};
	int wrong = 0;

	(void)state;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	print_message("# the sanitizers have a vfork() of their own\n");
	skip();
#endif
	signal(SIGALRM, ask);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0, end = rounds(3000); i < end; i++) {
		int status = 0;
		pid_t pid = start_and_end_child();
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		wrong += status != 0 || !is_right();
	}
	setitimer(ITIMER_REAL, &never, NULL);
	signal(SIGALRM, SIG_DFL);
	assert_int_equal(wrong, 0);
}

static void it_is_right_in_a_child_of_a_child_of_vfork(void **state)
{
	(void)state;
	pid_t pid = vfork();
	if (pid == 0) {
		int status;
		pid_t inner = fork();
		if (inner == 0)
			_exit(!is_right_twice());
		_exit(waitpid(inner, &status, 0) != inner || status != 0 || !is_right_twice());
	}
	assert_child_was_right(pid);
}

static void it_is_right_in_the_child_of_a_raw_clone(void **state)
{
	(void)state;
	gettid();
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		syscall(SYS_exit_group, !is_right_twice());
	assert_child_was_right(pid);
}

static int clone_main(void *argument)
{
	(void)argument;
	return !is_right_twice();
}

static void assert_right_with_clone(int flags)
{
	enum { STACK = 256 * 1024 };
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(stack != MAP_FAILED);
	gettid();
	assert_child_was_right(clone(clone_main, stack + STACK, flags | SIGCHLD, NULL));
	munmap(stack, STACK);
}

static void it_is_right_in_the_child_of_clone(void **state)
{
	(void)state;
	assert_right_with_clone(0);
}

static void it_is_right_in_a_child_that_shares_the_memory_for_a_while(void **state)
{
	(void)state;
	skip_unless_clone_shares_memory();
	assert_right_with_clone(CLONE_VM | CLONE_VFORK);
}

static void *share_memory(void *unused)
{
	/* Child and parent use the same variables at the same time, from here on. */
	assert_right_with_clone(CLONE_VM);
	return unused;
}

static void it_is_right_in_a_child_that_shares_the_memory_for_good(void **state)
{
	pthread_t thread;

	(void)state;
	skip_unless_clone_shares_memory();
	assert_int_equal(pthread_create(&thread, NULL, share_memory, NULL), 0);
	pthread_join(thread, NULL);
	assert_true(is_right_twice());
}

/* From here on the system call gettid ends the process. */
static bool forbid_the_system_call(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

static int without_the_system_call(void)
{
	pid_t tid = gettid(); /* a child learns it once */
	if (!forbid_the_system_call())
		return 2;
	for (int i = 0; i < 1000; i++)
		if (gettid() != tid || tek_gettid() != tid)
			return 1;
	return tid == getpid() ? 0 : 1;
}

static void *new_thread(void *unused)
{
	(void)unused;
	return (void *)(intptr_t)gettid();
}

static int new_threads_without_the_system_call(void)
{
	pthread_t thread;
	void *tid;

	gettid();
	if (!forbid_the_system_call() || pthread_create(&thread, NULL, new_thread, NULL) ||
	    pthread_join(thread, &tid))
		return 2;
	return (intptr_t)tid > 0 && (intptr_t)tid != getpid() ? 0 : 1;
}

static void need_seccomp(void)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	print_message("# the sanitizers ask for the thread's id themselves\n");
	skip();
#endif
}

static void it_makes_no_system_call_once_it_is_known(void **state)
{
	(void)state;
	need_seccomp();
	assert_int_equal(in_child(without_the_system_call), 0);
}

static void a_new_thread_never_makes_one(void **state)
{
	(void)state;
	need_seccomp();
	assert_int_equal(in_child(new_threads_without_the_system_call), 0);
}

static bool checked_is(int expected)
{
	pid_t tid = -1;
	return tek_self_checked(&tid) == expected && tid == (expected ? -1 : own_tid());
}

static void *all_getters(void *unused)
{
	(void)unused;
	const bool right = checked_is(0) && tek_self_fast() == own_tid() &&
			   tek_self_register() != 0;
	return right ? (void *)tek_self_register() : NULL;
}

static void each_getter_is_right_in_each_thread(void **state)
{
	pthread_t threads[4];
	void *registers[5] = {all_getters(NULL)};

	(void)state;
	/* Those that have ended may have left their number to a later one. */
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, all_getters, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], &registers[i + 1]);
	for (int i = 0; i < 5; i++)
		assert_non_null(registers[i]);
	for (int i = 1; i < 5; i++)
		assert_ptr_not_equal(registers[0], registers[i]);
}

static void the_checked_getter_knows_that_a_child_of_vfork_is_no_thread_of_the_program(void **state)
{
	(void)state;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	print_message("# the sanitizers have a vfork() of their own\n");
	skip();
#endif
	assert_true(checked_is(0));
	pid_t pid = vfork();
	if (pid == 0)
		_exit(!checked_is(ESRCH));
	assert_child_was_right(pid);
	assert_true(checked_is(0));
}

static void the_checked_getter_knows_the_child_of_fork(void **state)
{
	(void)state;
	pid_t pid = fork();
	if (pid == 0)
		_exit(!checked_is(0) || tek_self_fast() != own_tid());
	assert_child_was_right(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_right_in_every_thread),
		cmocka_unit_test(it_is_right_in_the_child_of_fork),
		cmocka_unit_test(it_is_right_in_the_child_of__Fork),
		cmocka_unit_test(it_is_right_in_the_child_of_vfork),
		cmocka_unit_test(it_is_right_in_the_child_of_vfork_whenever_a_handler_asks_too),
		cmocka_unit_test(it_is_right_in_a_child_of_a_child_of_vfork),
		cmocka_unit_test(it_is_right_in_the_child_of_a_raw_clone),
		cmocka_unit_test(it_is_right_in_the_child_of_clone),
		cmocka_unit_test(it_is_right_in_a_child_that_shares_the_memory_for_a_while),
		cmocka_unit_test(it_is_right_in_a_child_that_shares_the_memory_for_good),
		cmocka_unit_test(each_getter_is_right_in_each_thread),
		cmocka_unit_test(
			the_checked_getter_knows_that_a_child_of_vfork_is_no_thread_of_the_program),
		cmocka_unit_test(the_checked_getter_knows_the_child_of_fork),
		cmocka_unit_test(it_makes_no_system_call_once_it_is_known),
		cmocka_unit_test(a_new_thread_never_makes_one),
	};
	return cmocka_run_group_tests_name("gettid", tests, NULL, NULL);
}
