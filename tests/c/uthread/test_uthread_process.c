/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Process-wide state with threads on several kernel threads: user ids, fork, libraries, malloc. */
#include "patience.h"
#include "uthread_support.h"

#include "uthread/carrier.h"
#include "uthread/guard.h"

#include <errno.h>
#include <regex.h>
#include <sys/syscall.h>

enum { THREADS = 20 };

static __thread int with_value = 42;
static __thread char zeros[3000];

static void begin(void)
{
	if (tek_ut__engine.own_tls)
		tek_ut__tls_begin_current();
}

static void end(void)
{
	if (tek_ut__engine.own_tls)
		tek_ut__tls_end_current();
}

static void create_and_join(void *(*routine)(void *))
{
	struct tek_uthread *threads[THREADS];

	for (long i = 0; i < THREADS; i++)
		threads[i] = spawn(routine, (void *)i);
	for (long i = 0; i < THREADS; i++)
		CHECK(join(threads[i]) == (void *)i);
}

static void everywhere(void (*body)(void))
{
	with_engine("workers=1,quantum=200us", body);
	with_engine("workers=3,quantum=200us", body);
	if (!tek_ut__tls_available())
		return;
	with_engine("own:workers=1,quantum=200us", body);
	with_engine("own:workers=3,quantum=200us", body);
	with_engine("own:workers=3,quantum=200us,sched=steal", body);
}

static void *change_user(void *argument)
{
	begin();
	for (int i = 0; i < 5; i++)
		CHECK(setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1) == 0);
	end();
	return argument;
}

static void change_users(void)
{
	sleep_ms(20); /* the other workers have nothing to do */
	CHECK(setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1) == 0);
	create_and_join(change_user);
}

static void setuid_returns_whoever_runs_where(void **state)
{
	(void)state;
	everywhere(change_users);
}

static void *allocate_and_sleep(void *argument)
{
	begin();
	for (int i = 0; i < 3; i++) {
		char *volatile memory = malloc(100);
		memory[99] = 1;
		sleep_ms(1);
		free(memory);
	}
	end();
	return argument;
}

static void *fork_and_wait(void *argument)
{
	begin();
	tek_ut__guards_enter_and_close(); /* as in lib/uthread/posix/fork.c */
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		limit_to(20);
		tek_ut__engine_after_fork();
		tek_ut__leave();
		for (int i = 0; i < 3; i++)
			create_and_join(allocate_and_sleep);
		end();
		_exit(7);
	}
	tek_ut__guards_open();
	tek_ut__leave();
	int status;
	while (waitpid(child, &status, 0) < 0)
		CHECK(errno == EINTR);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	end();
	return argument;
}

static void fork_everywhere(void)
{
	create_and_join(fork_and_wait);
}

static void a_child_of_any_worker_makes_threads_that_wait(void **state)
{
	(void)state;
	if (getenv("TEK_EMULATED")) {
		print_message("# needs a kernel, and not qemu-user\n");
		skip();
	}
	everywhere(fork_everywhere);
}

/* sigreturn(2) restores the state of the interrupted thread, perhaps on another kernel thread. */
static void *compute_and_examine(void *argument)
{
	begin();
	for (int i = 0; i < 2000; i++) {
		stack_t stack;
		tek_ut__enter();
		CHECK(syscall(SYS_sigaltstack, NULL, &stack) == 0);
		CHECK(stack.ss_sp == tek_ut__here_carrier()->signal_stack);
		tek_ut__leave();
		for (volatile int iterations = 0; iterations < 5000; iterations++)
			;
	}
	end();
	return argument;
}

static void compute_everywhere(void)
{
	create_and_join(compute_and_examine);
}

static void each_kernel_thread_keeps_its_alternate_stack(void **state)
{
	(void)state;
	everywhere(compute_everywhere);
}

static int compare(const void *one, const void *other)
{
	return *(const int *)one - *(const int *)other;
}

/* errno and variables keep their values, whichever thread uses the C library on a kernel thread. */
static void *use_the_c_library(void *argument)
{
	const int number = (int)(long)argument + 1;
	unsigned int seed = (unsigned int)number;
	int numbers[300];
	char text[100];
	regex_t regex;

	begin();
	CHECK(errno == 0 && with_value == 42 && zeros[0] == 0 && zeros[sizeof(zeros) - 1] == 0);
	with_value = number;
	memset(zeros, number, sizeof(zeros));
	for (int i = 0; i < 50; i++) {
		for (int j = 0; j < 300; j++)
			numbers[j] = rand_r(&seed) % 1000;
		qsort(numbers, 300, sizeof(numbers[0]), compare);
		free(malloc((size_t)numbers[i] * 10 + 1));
		snprintf(text, sizeof(text), "%f %d", number * 0.5, numbers[0]);
		CHECK(regcomp(&regex, "^[0-9.]+ (0|[1-9][0-9]*)$", REG_EXTENDED) == 0);
		CHECK(regexec(&regex, text, 0, NULL, 0) == 0);
		regfree(&regex);
		errno = number;
		for (volatile int spin = 0; spin < 20000; spin++)
			;
		CHECK(errno == number && with_value == number);
		CHECK(zeros[i] == (char)number);
	}
	end();
	return argument;
}

static void use_the_c_library_often(void)
{
	for (int i = 0; i < 5; i++)
		create_and_join(use_the_c_library);
}

static void each_thread_has_variables_of_its_own_wherever_it_runs(void **state)
{
	(void)state;
	if (!tek_ut__tls_available()) {
		print_message("# needs thread-local storage for each thread\n");
		skip();
	}
	with_engine("own:workers=1,quantum=200us", use_the_c_library_often);
	with_engine("own:workers=3,quantum=200us,sched=steal", use_the_c_library_often);
	with_engine("own:workers=2,quantum=1ms,preempt=klt", use_the_c_library_often);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(setuid_returns_whoever_runs_where),
		cmocka_unit_test(a_child_of_any_worker_makes_threads_that_wait),
		cmocka_unit_test(each_kernel_thread_keeps_its_alternate_stack),
		cmocka_unit_test(each_thread_has_variables_of_its_own_wherever_it_runs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
