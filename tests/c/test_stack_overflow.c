/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What happens when a thread runs out of its stack, and to programs that use SIGSEGV themselves. */
#include "fitted.h"

#include "stack/action.h"
#include "stack/backtrace.h"
#include "stack/signal_stack.h"

#include <alloca.h>
#include <malloc.h>
#include <spawn.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK_BYTES = 128 << 10 };

static struct ended ended;

/* ---- what is reported ---- */

static void *overflow(void *unused)
{
	(void)unused;
	fit_self(0);
	recurse(ENDLESS);
	return NULL;
}

static void *overflow_with_name_and_role(void *unused)
{
	struct tek_attributes attributes = {.role = "gas detection"};
	pthread_setname_np(pthread_self(), "gas");
	if (tek_thread_set_attributes(pthread_self(), TEK_ATTRIBUTE_ROLE, &attributes))
		abort();
	return overflow(unused);
}

static int join(pthread_t thread)
{
	pthread_join(thread, NULL);
	return 0;
}

static int overflow_in_thread(void)
{
	return join(start_with_stack(STACK_BYTES, overflow_with_name_and_role, NULL));
}

static bool within(uint64_t address, const void *function)
{
	return address - (uintptr_t)function < 400;
}

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
		alarm(60);
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

static void a_recursion_in_turn_is_folded_and_the_outermost_frames_are_kept(void **state)
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
		alarm(60);
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

/* ---- handlers of the program ---- */

static volatile sig_atomic_t calls;
static siginfo_t seen;
static volatile bool was_on_alternate_stack;
static sigjmp_buf recovery;
static const char *guard_page;

static bool is_on_alternate_stack(void)
{
	stack_t stack;
	return sigaltstack(NULL, &stack) == 0 && stack.ss_flags & SS_ONSTACK;
}

static void leave_well(int number, siginfo_t *info, void *context)
{
	const ucontext_t *interrupted = context;
	bool right = number == SIGSEGV && info->si_code > 0 && is_on_alternate_stack() &&
		     interrupted->uc_stack.ss_size != 0;
	_exit(right && info->si_addr ? 7 : 8);
}

static void set(void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};
	if (sigaction(SIGSEGV, &action, NULL))
		abort();
}

static void *only_fit(void *unused)
{
	(void)unused;
	fit_self(0);
	return NULL;
}

static void watch(void)
{
	join(start_with_stack(STACK_BYTES, only_fit, NULL));
	if (!tek__action_is_watched())
		abort();
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

static void recover(int number)
{
	(void)number;
	calls++;
	siglongjmp(recovery, 1);
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

static void a_program_that_jumps_out_of_its_handler_recovers_twice_and_is_told_once(void **state)
{
	(void)state;
	run_child(&ended, overflow_and_recover);
	assert_exited(&ended, 0);
	unsigned int overflows = 0;
	for (unsigned int i = 0; i < ended.events; i++)
		overflows += ended.event[i].kind == TEK_EVENT_OVERFLOW;
	assert_int_equal(overflows, 1);
}

static void look_at_fault(int number, siginfo_t *info, void *context)
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
	set(look_at_fault, flags);
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

/* ---- other signals ---- */

static void a_handler(int number)
{
	(void)number;
	calls++;
}

enum { HANDLER_FRAME = 20 << 10 }; /* of a crash reporter that formats text, say */

__attribute__((noinline)) static void use_stack(size_t bytes)
{
	volatile char *frame = alloca(bytes);

	for (size_t i = bytes; i-- > 0;)
		frame[i] = 1;
}

static void use_much(int number)
{
	(void)number;
	use_stack(HANDLER_FRAME);
	was_on_alternate_stack = is_on_alternate_stack();
	calls++;
}

static void *signal_self(void *unused)
{
	(void)unused;
	fit_self(0);
	pthread_kill(pthread_self(), SIGUSR1);
	return NULL;
}

static int handle_on_signal_stack(void)
{
	struct sigaction action = {.sa_handler = use_much, .sa_flags = SA_ONSTACK};
	sigaction(SIGUSR1, &action, NULL);
	join(start_with_stack(STACK_BYTES, signal_self, NULL));
	return calls == 1 && was_on_alternate_stack ? 0 : 1;
}

static int handle_on_signal_stack_with_few_addresses(void)
{
	setrlimit(RLIMIT_AS, &(struct rlimit){1 << 30, 1 << 30});
	return handle_on_signal_stack();
}

static void a_handler_of_another_signal_has_room_for_large_frames(void **state)
{
	(void)state;
	run_child(&ended, handle_on_signal_stack);
	assert_exited(&ended, 0);
	run_child(&ended, handle_on_signal_stack_with_few_addresses);
	assert_exited(&ended, 0);
}

static void recurse_for_ever(int number)
{
	(void)number;
	recurse(ENDLESS);
}

static int handler_overflows_signal_stack(void)
{
	struct sigaction action = {.sa_handler = recurse_for_ever, .sa_flags = SA_ONSTACK};
	sigaction(SIGUSR1, &action, NULL);
	return join(start_with_stack(STACK_BYTES, signal_self, NULL));
}

static void a_handler_that_overflows_the_signal_stack_is_not_the_thread_s_overflow(void **state)
{
	(void)state;
	run_child(&ended, handler_overflows_signal_stack);
	assert_killed_by(&ended, SIGSEGV);
	assert_int_equal(ended.events, 0);
}

/* The calling thread has only so much of its stack left when SIGUSR1 comes. */
__attribute__((noinline)) static void signal_on_full_stack(const struct tek_thread *thread,
							   size_t left)
{
	uintptr_t low = thread->stack.end - thread->stack.bytes + thread->stack.reserve_bytes;
	pid_t pid = getpid(), tid = own_tid();
	volatile char *fill = alloca((uintptr_t)__builtin_frame_address(0) - low - left);

	fill[0] = 1;
	syscall(SYS_tgkill, pid, tid, SIGUSR1);
}

static void *get_signal_on_full_stack(void *unused)
{
	(void)unused;
	signal_on_full_stack(fit_self(0), 1000);
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

/* ---- threads that block SIGSEGV ---- */

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

/* ---- what the program sees ---- */

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

static void an_action_after_too_many_others_is_watched_again(void **state)
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
		/* What the child did to its own action is not the parent's. */
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

/* ---- signal stacks ---- */

static void *keep_signal_stack(void *barriers)
{
	pthread_barrier_t *barrier = barriers;
	fit_self(0);
	if (!is_on_alternate_stack() && tek__thread_known_self()->stack.signal_stack)
		pthread_barrier_wait(&barrier[0]);
	pthread_barrier_wait(&barrier[1]);
	return NULL;
}

static unsigned int mappings(void)
{
	char line[512];
	unsigned int count = 0;
	FILE *file = fopen("/proc/self/maps", "re");
	while (file && fgets(line, sizeof(line), file))
		count++;
	fclose(file);
	return count;
}

static size_t status_kib(const char *field)
{
	char line[256];
	size_t kib = 0;
	FILE *file = fopen("/proc/self/status", "re");
	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, field, strlen(field)) == 0)
			sscanf(line, "%*[^:]: %zu", &kib);
	fclose(file);
	return kib;
}

static size_t virtual_kib(void)
{
	return status_kib("VmSize");
}

enum { MANY = 2000 };

static int many_signal_stacks(void)
{
	static pthread_t threads[MANY];
	static pthread_barrier_t barriers[2];

	pthread_barrier_init(&barriers[0], NULL, MANY + 1);
	pthread_barrier_init(&barriers[1], NULL, MANY + 1);
	for (int i = 0; i < MANY; i++)
		threads[i] = start_with_stack(64 << 10, keep_signal_stack, barriers);
	pthread_barrier_wait(&barriers[0]);
	/* At most two for each stack that the C library made. */
	unsigned int used = mappings();
	if (tek__signal_stack_count() != MANY)
		return 1;
	pthread_barrier_wait(&barriers[1]);
	for (int i = 0; i < MANY; i++)
		pthread_join(threads[i], NULL);
	return used < 2 * MANY + 300 ? 0 : 2;
}

static void thousands_of_signal_stacks_take_few_mappings(void **state)
{
	char page[4096] __attribute__((aligned(4096)));

	(void)state;
	(void)page;
	void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool light = madvise(map, 4096, 102 /* MADV_GUARD_INSTALL */) == 0;
	munmap(map, 4096);
	if (!light) {
		print_message("# needs Linux 6.13\n");
		skip();
	}
	run_child(&ended, many_signal_stacks);
	assert_exited(&ended, 0);
}

static int churn(void)
{
	for (int i = 0; i < 20000; i++)
		join(start_with_stack(64 << 10, only_fit, NULL));
	return tek__signal_stack_count() <= 4 ? 0 : 1;
}

/* Each with another size, so that the C library's cache is of no use. */
static int churn_through_places(void)
{
	for (int i = 0; i < 3000; i++)
		join(start_with_stack((size_t)(1 + i % 50) << 20, only_fit, NULL));
	return tek__signal_stack_count() <= 100 ? 0 : 1;
}

static int fill_few_addresses(void)
{
	static pthread_t threads[MANY];
	static pthread_barrier_t barriers[2];
	struct rlimit limit = {1 << 30, 1 << 30};

	mallopt(M_ARENA_MAX, 1); /* that of each thread would take more */
	pthread_barrier_init(&barriers[0], NULL, MANY + 1);
	pthread_barrier_init(&barriers[1], NULL, MANY + 1);
	setrlimit(RLIMIT_AS, &limit);
	size_t before = virtual_kib();
	for (int i = 0; i < MANY; i++)
		threads[i] = start_with_stack(64 << 10, keep_signal_stack, barriers);
	pthread_barrier_wait(&barriers[0]);
	size_t kib = virtual_kib() - before;
	pthread_barrier_wait(&barriers[1]);
	for (int i = 0; i < MANY; i++)
		pthread_join(threads[i], NULL);
	/* Stack, guard, 16 KiB; a 64th of the addresses; the table. */
	return kib < MANY * 84 + (16 << 10) + (8 << 10) ? 0 : 1;
}

static void signal_stacks_are_small_where_addresses_are_few(void **state)
{
	(void)state;
	run_child(&ended, fill_few_addresses);
	assert_exited(&ended, 0);
}

enum { LOCKED = 300 };

static int lock_signal_stacks(void)
{
	static pthread_t threads[LOCKED];
	static pthread_barrier_t barriers[2];

	mallopt(M_ARENA_MAX, 1); /* that of each thread would take more */
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return 77;
	pthread_barrier_init(&barriers[0], NULL, LOCKED + 1);
	pthread_barrier_init(&barriers[1], NULL, LOCKED + 1);
	struct sigaction action = {.sa_handler = use_much, .sa_flags = SA_ONSTACK};
	sigaction(SIGUSR1, &action, NULL);
	join(start_with_stack(64 << 10, signal_self, NULL));
	size_t before = status_kib("VmLck");
	for (int i = 0; i < LOCKED; i++)
		threads[i] = start_with_stack(64 << 10, keep_signal_stack, barriers);
	pthread_barrier_wait(&barriers[0]);
	size_t kib = status_kib("VmLck") - before;
	pthread_barrier_wait(&barriers[1]);
	for (int i = 0; i < LOCKED; i++)
		pthread_join(threads[i], NULL);
	print_message("# %zu KiB locked for %d threads\n", kib, LOCKED);
	if (calls != 1)
		return 1;
	/* Stack and guard, 12 KiB of the signal stack; where frames are large, more. */
	return kib < LOCKED * (68 + 16 + 16) ? 0 : 2;
}

static void of_signal_stacks_only_a_part_is_locked_with_the_program_s_memory(void **state)
{
	(void)state;
	run_child(&ended, lock_signal_stacks);
	if (WIFEXITED(ended.status) && WEXITSTATUS(ended.status) == 77) {
		print_message("# needs CAP_IPC_LOCK\n");
		skip();
	}
	assert_exited(&ended, 0);
}

static void signal_stacks_are_used_again(void **state)
{
	(void)state;
	run_child(&ended, churn);
	assert_exited(&ended, 0);
	run_child(&ended, churn_through_places);
	assert_exited(&ended, 0);
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
		cmocka_unit_test(an_overflow_dumps_core_where_a_crash_does),
		cmocka_unit_test(a_recursion_in_turn_is_folded_and_the_outermost_frames_are_kept),
		cmocka_unit_test(
			a_handler_on_the_alternate_stack_gets_the_overflow_after_the_report),
		cmocka_unit_test(
			a_handler_on_the_full_stack_cannot_run_and_the_process_dies_as_without_tek),
		cmocka_unit_test(
			a_program_that_jumps_out_of_its_handler_recovers_twice_and_is_told_once),
		cmocka_unit_test(
			other_faults_of_a_fitted_thread_reach_the_handler_on_the_stack_that_it_wants),
		cmocka_unit_test(a_handler_of_another_signal_has_room_for_large_frames),
		cmocka_unit_test(
			a_handler_that_overflows_the_signal_stack_is_not_the_thread_s_overflow),
		cmocka_unit_test(a_signal_for_which_the_stack_has_no_room_is_an_overflow),
		cmocka_unit_test(a_wild_address_is_no_overflow),
		cmocka_unit_test(
			a_thread_that_blocks_all_signals_is_reported_and_dies_without_its_handler),
		cmocka_unit_test(a_signal_that_is_sent_to_a_thread_that_blocks_it_waits),
		cmocka_unit_test(a_handler_that_blocks_signals_and_jumps_out_is_called_again),
		cmocka_unit_test(the_program_sees_the_action_that_it_set),
		cmocka_unit_test(an_action_after_too_many_others_is_watched_again),
		cmocka_unit_test(a_program_may_set_hundreds_of_different_actions),
		cmocka_unit_test(all_ways_to_set_a_handler_show_the_program_its_own),
		cmocka_unit_test(a_handler_for_one_time_is_called_once),
		cmocka_unit_test(a_signal_that_was_sent_does_what_it_would_do_without_tek),
		cmocka_unit_test(a_crash_reporter_that_sends_the_signal_again_dies_of_it),
		cmocka_unit_test(children_of_all_kinds_have_their_own_actions),
		cmocka_unit_test(a_broken_stack_still_ends_in_the_signal),
		cmocka_unit_test(
			a_tiny_alternate_stack_of_the_program_is_not_overrun_by_the_report),
		cmocka_unit_test(thousands_of_signal_stacks_take_few_mappings),
		cmocka_unit_test(signal_stacks_are_small_where_addresses_are_few),
		cmocka_unit_test(of_signal_stacks_only_a_part_is_locked_with_the_program_s_memory),
		cmocka_unit_test(signal_stacks_are_used_again),
		cmocka_unit_test(the_child_of_a_fork_has_the_net_too),
	};
	return cmocka_run_group_tests_name("stack_overflow", tests, NULL, NULL);
}
