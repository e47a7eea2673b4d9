/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread that exceeds its stack. */
#include "base/page.h"
#include "overflow_support.h"
#include "patience.h"

#include "base/backtrace.h"

#include <alloca.h>
#include <sys/mman.h>
#include <ucontext.h>

static void an_overflow_is_reported_with_name_role_size_function_and_backtrace(void **state)
{
	(void)state;
	run_child(&ended, overflow_in_thread);
	assert_killed_by(&ended, SIGSEGV);
	assert_true(ended.events > 3);

	const struct tek_event *event = ended.event;
	assert_int_equal(event->kind, TEK_EVENT_OVERFLOW);
	assert_string_equal((const char *)event->thread, "gas");
	assert_string_equal((const char *)event->text, "gas detection");
	assert_int_equal(event->error, 1);
	assert_in_range(event->value[0], STACK_BYTES - 8192, STACK_BYTES);

	assert_int_equal(event[1].kind, TEK_EVENT_FRAME);
	assert_int_equal(event[1].value[0], 0);
	assert_int_equal(event[1].value[2], (uintptr_t)overflow_with_name_and_role);

	assert_int_equal(event[2].value[0], 1);
	assert_true(within(event[2].value[2], recurse));
	assert_non_null(strstr((const char *)event[2].text, "test_stack_overflow"));
	assert_int_equal(event[3].value[0], 2);
	assert_true(within(event[3].value[2], recurse));
	/* One round stands for hundreds. */
	assert_true(event[3].value[3] > 100);
	assert_false(within(event[4].value[2], recurse));
}

static void the_report_is_on_standard_error_where_there_is_no_event_file(void **state)
{
	char text[4096];
	int ends[2], status;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){0});
		limit_to(60);
		dup2(ends[1], STDERR_FILENO);
		tek__report_start();
		tek__stack_config.mode = TEK_STACK_MODE_AUTO;
		tek__stack_config.period_ms = 0;
		_exit(overflow_in_thread());
	}
	close(ends[1]);
	waitpid(pid, &status, 0);
	ssize_t bytes = read(ends[0], text, sizeof(text) - 1);
	close(ends[0]);
	text[bytes > 0 ? bytes : 0] = '\0';
	assert_non_null(strstr(text, "thread \"gas\"["));
	assert_non_null(strstr(text, "(gas detection) ran out of its stack of "));
	assert_non_null(strstr(text, " bytes, which TEK chose\ntek:   it runs /"));
	assert_non_null(strstr(text, "\ntek:   #2 "));
	assert_non_null(strstr(text, " more\n"));
}

static void a_mutual_recursion_is_folded_and_the_outermost_frames_stay(void **state)
{
	struct tek_backtrace trace = {0};

	(void)state;
	for (int i = 0; i < 1000; i++)
		for (uintptr_t function = 1; function <= 3; function++)
			tek__backtrace_add(&trace, function);
	assert_int_equal(trace.count, 3);
	assert_int_equal(trace.frames[2].more, 2997);
	for (uintptr_t function = 100; function < 200; function++)
		tek__backtrace_add(&trace, function);
	assert_int_equal(trace.count, TEK_BACKTRACE_INNER + TEK_BACKTRACE_OUTER);
	assert_int_equal(trace.frames[TEK_BACKTRACE_INNER - 1].address, 120);
	assert_int_equal(trace.frames[TEK_BACKTRACE_INNER - 1].more, 200 - 121 - 6);
	assert_int_equal(trace.frames[trace.count - 1].address, 199);
}

/* Whether a child's death wrote a core, in a directory of its own. */
static bool dumps_core(int (*body)(void))
{
	char directory[] = "/tmp/tek-test-XXXXXX", command[64];
	int status;

	assert_non_null(mkdtemp(directory));
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		struct rlimit limit;
		signal(SIGSEGV, SIG_DFL);
		limit_to(60);
		getrlimit(RLIMIT_CORE, &limit);
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_CORE, &limit);
		_exit(chdir(directory) || body());
	}
	waitpid(pid, &status, 0);
	snprintf(command, sizeof(command), "rm -r %s", directory);
	assert_int_equal(system(command), 0);
	assert_true(WIFSIGNALED(status));
	return WCOREDUMP(status);
}

static int crash(void)
{
	return *(volatile int *)NULL;
}

static int overflow_quietly(void)
{
	setenv("TEK_EVENTS", "/dev/null", 1);
	tek__report_start();
	return overflow_in_thread();
}

static void an_overflow_dumps_core_where_a_crash_does(void **state)
{
	(void)state;
	if (!dumps_core(crash)) {
		print_message("# needs core dumps\n");
		skip();
	}
	assert_true(dumps_core(overflow_quietly));
}

static int overflow_with_handler_before(void)
{
	set(leave_well, SA_ONSTACK);
	return overflow_in_thread();
}

static int overflow_with_handler_after(void)
{
	watch();
	set(leave_well, SA_ONSTACK);
	return overflow_in_thread();
}

static void a_handler_on_the_alternate_stack_gets_the_overflow_after_the_report(void **state)
{
	(void)state;
	run_child(&ended, overflow_with_handler_before);
	assert_exited(&ended, 7);
	assert_true(ended.events > 3);
	run_child(&ended, overflow_with_handler_after);
	assert_exited(&ended, 7);
	assert_true(ended.events > 3);
}

static int overflow_with_handler_on_the_full_stack(void)
{
	set(leave_well, 0);
	return overflow_in_thread();
}

static void a_handler_on_the_full_stack_cannot_run_and_the_process_dies_as_without_tek(void **state)
{
	(void)state;
	run_child(&ended, overflow_with_handler_on_the_full_stack);
	assert_killed_by(&ended, SIGSEGV);
	assert_true(ended.events > 3);
}

static void *recover_twice(void *unused)
{
	(void)unused;
	fit_self(0);
	for (int i = 0; i < 2; i++)
		if (sigsetjmp(recovery, 1) == 0)
			recurse(ENDLESS);
	return NULL;
}

static int overflow_and_recover(void)
{
	struct sigaction action = {.sa_handler = recover, .sa_flags = SA_ONSTACK};
	sigaction(SIGSEGV, &action, NULL);
	join(start_with_stack(STACK_BYTES, recover_twice, NULL));
	return calls == 2 ? 0 : 1;
}

static void
a_program_that_jumps_out_of_its_handler_recovers_twice_and_is_reported_once(void **state)
{
	(void)state;
	run_child(&ended, overflow_and_recover);
	assert_exited(&ended, 0);
	unsigned int overflows = 0;
	for (unsigned int i = 0; i < ended.events; i++)
		overflows += ended.event[i].kind == TEK_EVENT_OVERFLOW;
	assert_int_equal(overflows, 1);
}

static void examine_fault(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	seen = *info;
	was_on_alternate_stack = is_on_alternate_stack();
	calls++;
	mprotect((void *)guard_page, tek__page_bytes, PROT_READ);
}

static void *touch_guard_page(void *unused)
{
	(void)unused;
	fit_self(0);
	for (int i = 1; i <= 2; i++) {
		errno = EILSEQ;
		mprotect((void *)guard_page, tek__page_bytes, PROT_NONE);
		(void)*(const volatile char *)(guard_page + i);
		if (calls != i || seen.si_addr != guard_page + i || seen.si_code != SEGV_ACCERR ||
		    errno != EILSEQ)
			abort();
	}
	return NULL;
}

static int read_barrier_of(int flags)
{
	guard_page = mmap(NULL, tek__page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	set(examine_fault, flags);
	join(start_with_stack(STACK_BYTES, touch_guard_page, NULL));
	return calls == 2 && was_on_alternate_stack == !!flags ? 0 : 1;
}

static int read_barrier_on_own_stack(void)
{
	return read_barrier_of(0);
}

static int read_barrier_on_alternate_stack(void)
{
	return read_barrier_of(SA_ONSTACK);
}

static void
other_faults_of_a_fitted_thread_reach_the_handler_on_the_stack_that_it_wants(void **state)
{
	(void)state;
	run_child(&ended, read_barrier_on_own_stack);
	assert_exited(&ended, 0);
	run_child(&ended, read_barrier_on_alternate_stack);
	assert_exited(&ended, 0);
	assert_int_equal(ended.events, 0);
}

/* The calling thread has only `left` bytes of its stack left when SIGUSR1 comes. */
__attribute__((noinline)) static void signal_on_full_stack(const struct tek_thread *thread,
							   size_t left)
{
	uintptr_t low = thread->stack.end - thread->stack.bytes + thread->stack.reserve_bytes;
	pid_t pid = getpid(), tid = own_tid();
	volatile char *fill = alloca((uintptr_t)__builtin_frame_address(0) - low - left);

	fill[0] = 1;
	syscall(SYS_tgkill, pid, tid, SIGUSR1);
	fill[0] = 2; /* not the last call, for which the stack might be given back */
}

static void *get_signal_on_full_stack(void *unused)
{
	(void)unused;
	signal_on_full_stack(fit_self(0), 600); /* the least is 744, on ARM */
	return NULL;
}

static int signal_on_full(void)
{
	signal(SIGUSR1, a_handler);
	return join(start_with_stack(STACK_BYTES, get_signal_on_full_stack, NULL));
}

static void a_signal_for_which_the_stack_has_no_room_is_an_overflow(void **state)
{
	(void)state;
	run_child(&ended, signal_on_full);
	assert_killed_by(&ended, SIGSEGV);
	assert_true(ended.events > 3);
	assert_int_equal(ended.event[0].kind, TEK_EVENT_OVERFLOW);
	bool named = false;
	for (unsigned int i = 1; i < ended.events; i++)
		named |= within(ended.event[i].value[2], signal_on_full_stack);
	assert_true(named);
}

#if defined(__x86_64__)
static void *use_wild_address(void *unused)
{
	(void)unused;
	fit_self(0);
	*(volatile int *)0x4141414141414141 = 1;
	return NULL;
}

static int crash_at_wild_address(void)
{
	return join(start_with_stack(STACK_BYTES, use_wild_address, NULL));
}
#endif

static void a_wild_address_is_no_overflow(void **state)
{
	(void)state;
#if defined(__x86_64__)
	run_child(&ended, crash_at_wild_address);
	assert_killed_by(&ended, SIGSEGV);
	assert_int_equal(ended.events, 0);
#else
	print_message("# needs amd64\n");
	skip();
#endif
}

/* ---- a backtrace that goes wrong ---- */

static void *overflow_with_broken_stack(void *unused)
{
	(void)unused;
	struct tek_thread *thread = fit_self(0);
	uintptr_t *end = (uintptr_t *)(thread->stack.end - 16384);
	/* All return addresses and frame pointers above are lost. */
	for (uintptr_t *word = (uintptr_t *)__builtin_frame_address(0) + 2; word < end; word++)
		*word = (uintptr_t)0x4141414141414141;
	recurse(ENDLESS);
	abort();
}

static int overflow_broken(void)
{
	return join(start_with_stack(STACK_BYTES, overflow_with_broken_stack, NULL));
}

static void a_broken_stack_still_ends_in_the_signal(void **state)
{
	(void)state;
	run_child(&ended, overflow_broken);
	assert_killed_by(&ended, SIGSEGV);
	assert_true(ended.events > 1);
}

static void *overflow_on_tiny_alternate_stack(void *unused)
{
	size_t bytes = (size_t)sysconf(_SC_MINSIGSTKSZ) + 700;
	stack_t tiny = {.ss_sp = malloc(bytes), .ss_size = bytes};

	(void)unused;
	fit_self(0);
	if (sigaltstack(&tiny, NULL))
		abort();
	memset(tiny.ss_sp, 0x5a, tiny.ss_size);
	recurse(ENDLESS);
	return NULL;
}

static int overflow_tiny(void)
{
	set(leave_well, SA_ONSTACK);
	return join(start_with_stack(STACK_BYTES, overflow_on_tiny_alternate_stack, NULL));
}

static void a_tiny_alternate_stack_of_the_program_is_not_overrun_by_the_report(void **state)
{
	(void)state;
	run_child(&ended, overflow_tiny);
	assert_exited(&ended, 7);
}

static void *fork_and_overflow(void *unused)
{
	int status;

	(void)unused;
	fit_self(0);
	pid_t pid = fork();
	if (pid == 0) {
		for (int i = 0; i < 100; i++)
			join(start_with_stack(64 << 10, only_fit, NULL));
		join(start_with_stack(STACK_BYTES, overflow, NULL));
	}
	waitpid(pid, &status, 0);
	_exit(WIFSIGNALED(status) ? 0 : 1);
}

static int fork_from_fitted(void)
{
	return join(start_with_stack(STACK_BYTES, fork_and_overflow, NULL));
}

static void the_child_of_a_fork_has_the_net_too(void **state)
{
	(void)state;
	run_child(&ended, fork_from_fitted);
	assert_exited(&ended, 0);
	assert_true(ended.events > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			an_overflow_is_reported_with_name_role_size_function_and_backtrace),
		cmocka_unit_test(the_report_is_on_standard_error_where_there_is_no_event_file),
		cmocka_unit_test(a_mutual_recursion_is_folded_and_the_outermost_frames_stay),
		cmocka_unit_test(an_overflow_dumps_core_where_a_crash_does),
		cmocka_unit_test(
			a_handler_on_the_alternate_stack_gets_the_overflow_after_the_report),
		cmocka_unit_test(
			a_handler_on_the_full_stack_cannot_run_and_the_process_dies_as_without_tek),
		cmocka_unit_test(
			a_program_that_jumps_out_of_its_handler_recovers_twice_and_is_reported_once),
		cmocka_unit_test(
			other_faults_of_a_fitted_thread_reach_the_handler_on_the_stack_that_it_wants),
		cmocka_unit_test(a_signal_for_which_the_stack_has_no_room_is_an_overflow),
		cmocka_unit_test(a_wild_address_is_no_overflow),
		cmocka_unit_test(a_broken_stack_still_ends_in_the_signal),
		cmocka_unit_test(
			a_tiny_alternate_stack_of_the_program_is_not_overrun_by_the_report),
		cmocka_unit_test(the_child_of_a_fork_has_the_net_too),
	};
	return cmocka_run_group_tests_name("stack_overflow", tests, NULL, NULL);
}
