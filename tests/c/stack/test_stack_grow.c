/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* --stack grow: a stack whose low part is mapped when it is needed. */
#include "base/page.h"
#include "fitted.h"
#include "life/confine.h"

#include "stack/grow.h"

#include <alloca.h>
#include <sys/mman.h>

enum {
	STACK_BYTES = 8 << 20,
	COMMITTED_BYTES = 64 << 10,
	RESERVE_BYTES = STACK_BYTES - COMMITTED_BYTES,
};

static struct ended ended;

static int run_thread(void *(*routine)(void *))
{
	void *result;
	pthread_join(start_with_stack(STACK_BYTES, routine, NULL), &result);
	return (int)(intptr_t)result;
}

static void *go_deep(void *unused)
{
	(void)unused;
	volatile struct tek_thread *thread = fit_self(RESERVE_BYTES);
	recurse(16 << 10);
	if (thread->stack.flags & TEK_STACK_GROWN)
		return (void *)1;
	recurse(300 << 10);
	if (!(thread->stack.flags & TEK_STACK_GROWN) || thread->stack.reserve_bytes > RESERVE_BYTES)
		return (void *)2;
	size_t left = thread->stack.reserve_bytes;
	if (left < 6 << 20)
		return (void *)3;
	recurse(7 << 20);
	return (void *)(intptr_t)(thread->stack.reserve_bytes < left ? 0 : 4);
}

static int grow(void)
{
	return run_thread(go_deep);
}

static void a_thread_grows_into_its_reserve(void **state)
{
	(void)state;
	run_child(&ended, grow);
	assert_exited(&ended, 0);
	assert_int_equal(ended.events, 0);
}

static void *go_too_deep(void *unused)
{
	(void)unused;
	fit_self(RESERVE_BYTES);
	recurse(ENDLESS);
	return NULL;
}

static int grow_too_much(void)
{
	return run_thread(go_too_deep);
}

static void a_thread_that_needs_more_than_the_reserve_overflows(void **state)
{
	(void)state;
	run_child(&ended, grow_too_much);
	assert_true(WIFSIGNALED(ended.status));
	assert_int_equal(WTERMSIG(ended.status), SIGSEGV);
	assert_true(ended.events > 3);
	assert_in_range(ended.event[0].value[0], STACK_BYTES - 8192, STACK_BYTES);
}

static void *do_without_reserve(void *unused)
{
	(void)unused;
	recurse(7 << 20);
	return NULL;
}

static void *only_begin(void *unused)
{
	(void)unused;
	fit_self(RESERVE_BYTES);
	return NULL;
}

static void *leave_by_system_call(void *unused)
{
	only_begin(unused);
	syscall(SYS_exit, 0);
	return NULL;
}

static int use_again(void)
{
	run_thread(only_begin);
	run_thread(do_without_reserve);
	pthread_join(start_with_stack(STACK_BYTES, leave_by_system_call, NULL), NULL);
	return run_thread(do_without_reserve);
}

static void the_stack_is_whole_for_the_next_thread_that_gets_it(void **state)
{
	(void)state;
	run_child(&ended, use_again);
	assert_exited(&ended, 0);
}

/* The upper part of the stack is as if the C library had made the lower one its guard. */
static struct tek_thread *have_room_for_stack(int (*make_guard)(void *low, size_t bytes))
{
	pthread_attr_t attr;
	void *low;
	size_t bytes;

	if (pthread_getattr_np(pthread_self(), &attr) || pthread_attr_getstack(&attr, &low, &bytes))
		abort();
	pthread_attr_destroy(&attr);
	struct tek_thread *thread = fit_self(0);
	const size_t guard = bytes - COMMITTED_BYTES, room = guard - tek__page_bytes;
	if (make_guard(low, guard))
		return NULL;
	thread->stack.bytes = COMMITTED_BYTES;
	thread->stack.room_bytes = room;
	thread->stack.own_low = thread->stack.end - COMMITTED_BYTES;
	tek__grow_begin(thread);
	return thread;
}

static int by_marker(void *low, size_t bytes)
{
	return madvise(low, bytes, 102 /* MADV_GUARD_INSTALL */);
}

static int by_protection(void *low, size_t bytes)
{
	return mprotect(low, bytes, PROT_NONE);
}

static bool is_accessible(uintptr_t address)
{
	const int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	const bool is = read(zero, (char *)address, 1) == 1;

	close(zero);
	return is;
}

/* A guard of markers lies in accessible memory. */
static bool is_protected(uintptr_t address)
{
	unsigned long low, high;
	char access[5] = "", line[512];
	bool is = false;
	FILE *file = fopen("/proc/self/maps", "re");

	while (file && !is && fgets(line, sizeof(line), file))
		is = sscanf(line, "%lx-%lx %4s", &low, &high, access) == 3 && low <= address &&
		     address < high && access[0] == '-';
	fclose(file);
	return is;
}

static void *use_room(void *make_guard)
{
	int (*const make)(void *, size_t) = *(int (**)(void *, size_t))make_guard;
	volatile struct tek_thread *thread = have_room_for_stack(make);

	if (!thread)
		return (void *)77;
	recurse(1 << 20);
	if (thread->stack.bytes < 1 << 20 || !(thread->stack.flags & TEK_STACK_GROWN))
		return (void *)1;
	/* By a label, too. */
	if (!tek__lock())
		return (void *)2;
	tek__grow_to((struct tek_thread *)thread, 4 << 20);
	tek__unlock();
	recurse((4 << 20) - (64 << 10));
	const uintptr_t low = thread->stack.end - thread->stack.bytes;
	tek__grow_end((struct tek_thread *)thread);
	if (is_accessible(low) || is_accessible(thread->stack.own_low - 1))
		return (void *)3;
	return (void *)(intptr_t)(is_protected(low) == (make == by_protection) ? 0 : 4);
}

static int (*kind_of_guard)(void *low, size_t bytes);

static int use_room_and_end(void)
{
	void *result;

	pthread_join(start_with_stack(STACK_BYTES, use_room, &kind_of_guard), &result);
	return (int)(intptr_t)result;
}

static void room_in_a_protected_guard_becomes_stack_and_guard_again(void **state)
{
	(void)state;
	kind_of_guard = by_protection;
	run_child(&ended, use_room_and_end);
	assert_exited(&ended, 0);
	assert_int_equal(ended.events, 0);
}

static void room_in_a_guard_of_markers_becomes_stack_and_guard_again(void **state)
{
	(void)state;
	kind_of_guard = by_marker;
	run_child(&ended, use_room_and_end);
	if (WIFEXITED(ended.status) && WEXITSTATUS(ended.status) == 77) {
		print_message("# needs Linux 6.13\n");
		skip();
	}
	assert_exited(&ended, 0);
	assert_int_equal(ended.events, 0);
}

static void *label_other(void *thread)
{
	if (!tek__lock())
		return (void *)1;
	tek__grow_to(thread, SIZE_MAX);
	tek__unlock();
	return NULL;
}

/* In memory that is the stack's by now a fault is the program's affair. */
static void *fault_where_it_is_open(void *by_other)
{
	volatile struct tek_thread *thread = fit_self(RESERVE_BYTES);
	const uintptr_t low = thread->stack.end - thread->stack.bytes;
	pthread_t other;
	void *failed;

	if (*(bool *)by_other) {
		if (pthread_create(&other, NULL, label_other, (void *)thread) ||
		    pthread_join(other, &failed))
			return (void *)1;
	} else {
		failed = label_other((void *)thread);
	}
	if (failed || thread->stack.reserve_bytes)
		return (void *)2;
	if (tek__grow_at((struct tek_thread *)thread, low + (4 << 20)))
		return (void *)3;
	return (void *)(intptr_t)(thread->stack.reserve_bytes ? 4 : 0);
}

static bool opened_by_other;

static int fault_there(void)
{
	void *result;

	pthread_join(start_with_stack(STACK_BYTES, fault_where_it_is_open, &opened_by_other),
		     &result);
	return (int)(intptr_t)result;
}

static void what_a_label_opened_does_not_become_reserve_again(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		opened_by_other = i;
		run_child(&ended, fault_there);
		assert_exited(&ended, 0);
	}
}

static void *begin_and_confine(void *unused)
{
	only_begin(unused);
	tek__confine("openat");
	return NULL;
}

static int use_again_confined(void)
{
	run_thread(begin_and_confine);
	return run_thread(do_without_reserve);
}

static void the_stack_is_whole_for_the_next_thread_of_a_confined_program(void **state)
{
	(void)state;
	run_child(&ended, use_again_confined);
	assert_exited(&ended, 0);
}

static size_t resident_kib(void)
{
	char line[256];
	size_t kib = 0;
	FILE *file = fopen("/proc/self/status", "re");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "VmRSS: %zu", &kib);
	fclose(file);
	return kib;
}

static void *examine_locked(void *unused)
{
	size_t before = resident_kib();
	only_begin(unused);
	size_t after = resident_kib();
	recurse(1 << 20);
	return (void *)(intptr_t)(before > after + (6 << 10) ? 0 : 1);
}

static int lock_all(void)
{
	return mlockall(MCL_CURRENT | MCL_FUTURE) ? 77 : run_thread(examine_locked);
}

static void the_reserve_of_a_program_that_locks_its_memory_is_given_back(void **state)
{
	(void)state;
	run_child(&ended, lock_all);
	if (WIFEXITED(ended.status) && WEXITSTATUS(ended.status) == 77) {
		print_message("# needs CAP_IPC_LOCK\n");
		skip();
	}
	assert_exited(&ended, 0);
}

static void *read_into_reserve(void *unused)
{
	(void)unused;
	struct tek_thread *thread = fit_self(RESERVE_BYTES);
	char *low = (char *)(thread->stack.end - thread->stack.bytes);
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	ssize_t got = read(zero, low + 4096, 16);
	return (void *)(intptr_t)(got == -1 && errno == EFAULT ? 0 : 1);
}

static int read_there(void)
{
	return run_thread(read_into_reserve);
}

static void a_system_call_is_refused_an_address_in_the_reserve(void **state)
{
	(void)state;
	run_child(&ended, read_there);
	assert_exited(&ended, 0);
}

static volatile sig_atomic_t calls;

static void count(int number)
{
	(void)number;
	calls++;
}

/* SIGUSR1 comes when so little of what can be accessed is left. */
__attribute__((noinline)) static void signal_at(uintptr_t low)
{
	pid_t pid = getpid(), tid = own_tid();
	volatile char *fill = alloca((uintptr_t)__builtin_frame_address(0) - low -
				     600); /* the least is 744, on ARM */

	fill[0] = 1;
	syscall(SYS_tgkill, pid, tid, SIGUSR1);
	fill[0] = 2; /* not the last call, for which the stack might be given back */
}

static void *get_signal_without_room(void *unused)
{
	(void)unused;
	volatile struct tek_thread *thread = fit_self(RESERVE_BYTES);
	uintptr_t low = thread->stack.end - thread->stack.bytes + thread->stack.reserve_bytes;

	signal(SIGUSR1, count);
	signal_at(low);
	if (!(thread->stack.flags & TEK_STACK_GROWN) || calls != 0)
		return (void *)1;
	signal_at(low);
	return (void *)(intptr_t)(calls == 1 ? 0 : 2);
}

static int signal_without_room(void)
{
	return run_thread(get_signal_without_room);
}

static void a_signal_that_found_no_room_is_lost_but_the_thread_grows(void **state)
{
	(void)state;
	run_child(&ended, signal_without_room);
	assert_exited(&ended, 0);
	assert_int_equal(ended.events, 0);
}

static void *fork_and_go_deep(void *unused)
{
	int status;

	(void)unused;
	fit_self(RESERVE_BYTES);
	pid_t pid = fork();
	if (pid == 0) {
		recurse(1 << 20);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return (void *)(intptr_t)(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static int fork_from_it(void)
{
	return run_thread(fork_and_go_deep);
}

static void the_child_of_a_fork_grows_too(void **state)
{
	(void)state;
	run_child(&ended, fork_from_it);
	assert_exited(&ended, 0);
}

static int too_little_room(void)
{
	setrlimit(RLIMIT_AS, &(struct rlimit){64 << 20, 64 << 20});
	pthread_attr_t attr;
	pthread_t thread;
	int error = 0;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	for (int i = 0; i < 20 && !error; i++)
		error = pthread_create(&thread, &attr, only_begin, NULL);
	return error == EAGAIN ? 0 : 1;
}

static void the_reserve_counts_against_the_limit_of_address_space(void **state)
{
	(void)state;
	run_child(&ended, too_little_room);
	assert_exited(&ended, 0);
}

static void a_stack_and_its_reserve_are_as_large_as_a_stack_is_elsewhere(void **state)
{
	(void)state;
	assert_int_equal(tek__grow_reserve(COMMITTED_BYTES), RESERVE_BYTES);
	assert_int_equal(tek__grow_reserve(STACK_BYTES), 0);
	assert_int_equal(tek__grow_reserve(2 * (size_t)STACK_BYTES), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_grows_into_its_reserve),
		cmocka_unit_test(a_thread_that_needs_more_than_the_reserve_overflows),
		cmocka_unit_test(the_stack_is_whole_for_the_next_thread_that_gets_it),
		cmocka_unit_test(the_stack_is_whole_for_the_next_thread_of_a_confined_program),
		cmocka_unit_test(room_in_a_protected_guard_becomes_stack_and_guard_again),
		cmocka_unit_test(room_in_a_guard_of_markers_becomes_stack_and_guard_again),
		cmocka_unit_test(what_a_label_opened_does_not_become_reserve_again),
		cmocka_unit_test(the_reserve_of_a_program_that_locks_its_memory_is_given_back),
		cmocka_unit_test(a_system_call_is_refused_an_address_in_the_reserve),
		cmocka_unit_test(a_signal_that_found_no_room_is_lost_but_the_thread_grows),
		cmocka_unit_test(the_child_of_a_fork_grows_too),
		cmocka_unit_test(the_reserve_counts_against_the_limit_of_address_space),
		cmocka_unit_test(a_stack_and_its_reserve_are_as_large_as_a_stack_is_elsewhere),
	};
	return cmocka_run_group_tests_name("stack_grow", tests, NULL, NULL);
}
