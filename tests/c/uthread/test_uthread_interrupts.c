/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Interruptions of calls that wait: signals, cancellation, closed files, and exec. */
#include "blocking_calls.h"
#include "patience.h"

#include <sys/resource.h>
#include <sys/syscall.h>

static void a_handler_ends_waits_as_in_signal_7(void **state)
{
	(void)state;
	char byte;
	make_function *const calls[] = {call_read,    call_poll,        call_ppoll,
					call_select,  call_epoll_wait,  call_nanosleep,
					call_pselect, call_epoll_pwait2};
	for (int i = 0; i < 16; i++) {
		bool restarts = i % 2;
		int file[2], other[2];
		make_pipe(file);
		make_pipe(other);
		struct call call = {.make = calls[i / 2],
				    .file = file[0],
				    .other = other[0],
				    .bytes = &byte,
				    .size = i / 2 == 0 ? 1 : 5000};
		handle(SIGUSR1, restarts ? SA_RESTART : 0);
		begin_and_see_it_wait(&call);
		assert_int_equal(pthread_kill(call.thread, SIGUSR1), 0);
		if (restarts && i / 2 == 0) {
			sleep_ms(20);
			assert_false(call.done);
			send_bytes(file[1], "x", 1);
			assert_int_equal(end(&call), 1);
		} else {
			assert_fails(&call, EINTR);
			assert_true(call.ns < 4000 * MS);
		}
		assert_int_equal(signals_seen, 1);
		close_pair(file);
		close_pair(other);
	}
	signal(SIGUSR1, SIG_DFL);
}

static void a_signal_that_is_ignored_ends_nothing(void **state)
{
	(void)state;
	int file[2];

	make_pipe(file);
	struct call call = {.make = call_ppoll, .file = file[0]};
	signal(SIGUSR1, SIG_IGN);
	begin_and_see_it_wait(&call);
	pthread_kill(call.thread, SIGUSR1);
	sleep_ms(20);
	assert_false(call.done);
	send_bytes(file[1], "x", 1);
	assert_int_equal(end(&call), 1);
	signal(SIGUSR1, SIG_DFL);
	close_pair(file);
}

static ssize_t call_with_mask(struct call *call)
{
	struct pollfd file = {.fd = call->file, .events = POLLIN};
	sigset_t blocked, none;

	sigemptyset(&none);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
	if (call->other)
		pthread_kill(pthread_self(), SIGUSR1);
	int result = call->flags ? sigsuspend(&none) : ppoll(&file, 1, NULL, &none);
	int error = errno;
	pthread_sigmask(SIG_BLOCK, NULL, &none);
	assert_true(sigismember(&none, SIGUSR1));
	errno = error;
	return result;
}

static void a_mask_for_the_wait_lets_in_what_was_blocked_before(void **state)
{
	(void)state;
	int file[2];

	make_pipe(file);
	for (int i = 0; i < 4; i++) {
		bool before = i % 2;
		struct call call = {
			.make = call_with_mask, .file = file[0], .other = before, .flags = i / 2};
		handle(SIGUSR1, SA_RESTART);
		if (before) {
			begin(&call);
		} else {
			begin_and_see_it_wait(&call);
			pthread_kill(call.thread, SIGUSR1);
		}
		assert_fails(&call, EINTR);
		assert_int_equal(signals_seen, 1);
	}
	signal(SIGUSR1, SIG_DFL);
	close_pair(file);
}

static ssize_t call_pause(struct call *call)
{
	(void)call;
	return pause();
}

static void pause_ends_with_a_handler(void **state)
{
	(void)state;
	struct call call = {.make = call_pause};

	handle(SIGUSR1, SA_RESTART);
	begin_and_see_it_wait(&call);
	pthread_kill(call.thread, SIGUSR1);
	assert_fails(&call, EINTR);
	signal(SIGUSR1, SIG_DFL);
}

static void assert_cancelled(struct call *call)
{
	void *result;

	assert_int_equal(pthread_cancel(call->thread), 0);
	assert_int_equal(pthread_join(call->thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_false(call->done);
}

static void cancellation_ends_a_wait_and_takes_nothing(void **state)
{
	(void)state;
	char byte;
	make_function *const calls[] = {call_read,      call_poll,  call_ppoll,  call_select,
					call_nanosleep, call_pause, call_usleep, call_pselect};
	for (int i = 0; i < 8; i++) {
		int file[2], other[2];
		make_sockets(file, SOCK_STREAM);
		make_pipe(other);
		struct call call = {.make = calls[i],
				    .file = file[0],
				    .other = other[0],
				    .bytes = &byte,
				    .size = i ? 900 : 1};
		begin_and_see_it_wait(&call);
		assert_cancelled(&call);
		send_bytes(file[1], "x", 1);
		assert_int_equal(read(file[0], &byte, 1), 1);
		close_pair(file);
		close_pair(other);
	}
}

static ssize_t call_when_cancelled(struct call *call)
{
	while (!call->other)
		sched_yield();
	return read(call->file, call->bytes, call->size);
}

static void cancellation_acts_before_a_call_that_need_not_wait(void **state)
{
	(void)state;
	char byte;
	int file[2];
	void *result;

	make_pipe(file);
	send_bytes(file[1], "x", 1);
	struct call call = {
		.make = call_when_cancelled, .file = file[0], .bytes = &byte, .size = 1};
	begin(&call);
	pthread_cancel(call.thread);
	__atomic_store_n(&call.other, 1, __ATOMIC_SEQ_CST);
	pthread_join(call.thread, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_int_equal(read(file[0], &byte, 1), 1);
	close_pair(file);
}

static void a_program_may_close_what_it_does_not_know(void **state)
{
	(void)state;
	char byte;
	int file[2];

	if (!is_preloaded()) {
		print_message("# needs libtek-uthread.so\n");
		skip();
	}
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_max <= 1024) {
		print_message("# needs a hard limit of more than 1024 open files\n");
		skip();
	}
	/* All numbers that the program may have. */
	const int most = limit.rlim_cur < 1100 ? (int)limit.rlim_cur : 1100;
	make_pipe(file);
	struct call call = {.make = call_read, .file = file[0], .bytes = &byte, .size = 1};
	begin_and_see_it_wait(&call);
	assert_int_equal(close_range((unsigned int)file[1] + 1, ~0u, 0), 0);
	for (int i = file[1] + 1; i < most; i++)
		assert_int_equal(close(i), -1);
	for (int i = file[1] + 1; i < most; i++)
		assert_int_equal(dup2(file[1], i), i);
	assert_int_equal(close_range((unsigned int)file[1] + 1, ~0u, 0), 0);
	sleep_ms(20);
	assert_false(call.done);
	send_bytes(file[1], "x", 1);
	assert_int_equal(end(&call), 1);
	/* A kernel thread's read would go on; here it returns an error. */
	begin_and_see_it_wait(&call);
	close(file[0]);
	assert_fails(&call, EBADF);
	close(file[1]);
}

static void a_program_may_close_it_by_a_system_call_and_take_its_number(void **state)
{
	(void)state;
	char byte;
	int file[2];
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	const int most = limit.rlim_cur < 1100 ? (int)limit.rlim_cur : 1100;
	make_pipe(file);
	assert_int_equal(syscall(SYS_close_range, file[1] + 1, ~0u, 0), 0);
	for (int i = file[1] + 1; i < most; i++)
		assert_int_equal(dup2(file[1], i), i);
	assert_int_equal(close_range((unsigned int)file[1] + 1, ~0u, 0), 0);
	struct call call = {.make = call_read, .file = file[0], .bytes = &byte, .size = 1};
	begin(&call);
	sleep_ms(20);
	send_bytes(file[1], "x", 1);
	assert_int_equal(end(&call), 1);
	close_pair(file);
}

/* As a program that does not ask the C library for it.  False: not known for this processor. */
static bool close_from_by_instruction(int first)
{
#if defined(__x86_64__)
	register unsigned long result __asm__("rax") = SYS_close_range;
	__asm__ volatile("syscall"
			 : "+r"(result)
			 : "D"((long)first), "S"(0xffffffffl), "d"(0l)
			 : "rcx", "r11", "memory");
	return result == 0;
#elif defined(__aarch64__)
	register long number __asm__("x8") = SYS_close_range, from __asm__("x0") = first;
	register long to __asm__("x1") = 0xffffffffl, flags __asm__("x2") = 0;
	__asm__ volatile("svc 0" : "+r"(from) : "r"(number), "r"(to), "r"(flags) : "memory");
	return from == 0;
#else
	return first < 0;
#endif
}

enum { UNKNOWN = 77 };

static volatile sig_atomic_t got_signal;

static void note_signal(int number)
{
	got_signal = number;
}

/* One thread waits for a file already, on another worker if there is one; more follow later. */
static int close_by_instruction(void)
{
	char bytes[2];
	int file[2], other[2];

	make_pipe(file);
	make_pipe(other);
	signal(SIGUSR2, note_signal);
	struct call before = {.make = call_read, .file = file[0], .bytes = bytes, .size = 1};
	struct call after = {.make = call_read, .file = other[0], .bytes = bytes + 1, .size = 1};
	begin_and_see_it_wait(&before);
	sleep_ms(20);
	if (!close_from_by_instruction(other[1] + 1))
		return UNKNOWN;
	sleep_ms(20);
	begin_and_see_it_wait(&after);
	send_bytes(other[1], "y", 1);
	if (end(&after) != 1)
		return 2;
	send_bytes(file[1], "x", 1);
	if (end(&before) != 1)
		return 3;
	kill(getpid(), SIGUSR2);
	while (!got_signal)
		sleep_ms(1);
	return bytes[0] == 'x' && bytes[1] == 'y' ? 0 : 4;
}

static void a_program_may_close_it_by_an_instruction_while_threads_wait(void **state)
{
	const int patience_ms = 20000;
	int status = 0, waited = 0;

	(void)state;
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(close_by_instruction());
	while (waitpid(child, &status, WNOHANG) == 0 && waited++ < patience_ms)
		sleep_ms(1);
	if (waited >= patience_ms) {
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
	}
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == UNKNOWN) {
		print_message("# needs close_range(2) of Linux 5.9, and x86-64 or aarch64\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

static atomic_bool enough;

static void *spin(void *unused)
{
	(void)unused;
	while (!enough)
		;
	return NULL;
}

/* With preemption signals come all the time; the next program has no handler for them. */
static int exec_beside_a_thread_that_runs(void)
{
	char *const arguments[] = {"true", NULL}, *const environment[] = {NULL};
	pthread_t thread;

	pthread_create(&thread, NULL, spin, NULL);
	usleep(3000);
	execve("/does/not/exist", arguments, environment);
	if (errno != ENOENT)
		return 1;
	usleep(3000); /* still preempted: the other one never waits */
	execle("/bin/true", "true", NULL, environment);
	return 2;
}

static void a_program_that_replaces_itself_leaves_no_signals_behind(void **state)
{
	(void)state;
	const char *options = getenv("TEK_UTHREAD");

	if (options && strstr(options, "preempt=off")) {
		print_message("# needs preemption\n");
		skip();
	}
	for (int i = 0; i < 30; i++)
		assert_int_equal(in_child(exec_beside_a_thread_that_runs), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_handler_ends_waits_as_in_signal_7),
		cmocka_unit_test(a_signal_that_is_ignored_ends_nothing),
		cmocka_unit_test(a_mask_for_the_wait_lets_in_what_was_blocked_before),
		cmocka_unit_test(pause_ends_with_a_handler),
		cmocka_unit_test(cancellation_ends_a_wait_and_takes_nothing),
		cmocka_unit_test(cancellation_acts_before_a_call_that_need_not_wait),
		cmocka_unit_test(a_program_may_close_what_it_does_not_know),
		cmocka_unit_test(a_program_may_close_it_by_a_system_call_and_take_its_number),
		cmocka_unit_test(a_program_may_close_it_by_an_instruction_while_threads_wait),
		cmocka_unit_test(a_program_that_replaces_itself_leaves_no_signals_behind),
	};
	limit_to(100);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
