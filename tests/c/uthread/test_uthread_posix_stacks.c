/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Stacks of threads: their sizes, their guards, and their use by one thread after another. */
#include "patience.h"
#include "uthread_posix.h"

#include <alloca.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <tek/tek.h>

static void *examine_stack(void *argument)
{
	char here;
	*(uintptr_t *)argument = (uintptr_t)&here;
	return NULL;
}

static void a_thread_runs_on_the_stack_that_it_was_given(void **state)
{
	const size_t bytes = 256 << 10;
	pthread_attr_t attr;
	uintptr_t at = 0;
	pthread_t thread;
	(void)state;
	char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(stack, MAP_FAILED);
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstack(&attr, stack, bytes), 0);
	assert_int_equal(pthread_create(&thread, &attr, examine_stack, &at), 0);
	result_of(thread);
	assert_in_range(at, (uintptr_t)stack, (uintptr_t)stack + bytes);
	pthread_attr_destroy(&attr);
	munmap(stack, bytes);
}

static void *use_much_stack(void *argument)
{
	volatile char bytes[(4 << 20) - (64 << 10)];
	for (size_t i = 0; i < sizeof(bytes); i += 4096)
		bytes[i] = 1;
	return argument;
}

static void a_thread_has_the_stack_size_that_was_asked_for(void **state)
{
	pthread_attr_t attr;
	pthread_t thread;
	(void)state;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 4 << 20);
	assert_int_equal(pthread_create(&thread, &attr, use_much_stack, NULL), 0);
	result_of(thread);
	pthread_attr_destroy(&attr);
}

struct reported {
	void *low;
	size_t bytes, guard;
	uintptr_t at;
	int detached;
};

static void *report_attributes(void *argument)
{
	struct reported *reported = argument;
	pthread_attr_t attr;

	reported->at = (uintptr_t)&attr;
	if (pthread_getattr_np(pthread_self(), &attr) == 0) {
		pthread_attr_getstack(&attr, &reported->low, &reported->bytes);
		pthread_attr_getguardsize(&attr, &reported->guard);
		pthread_attr_getdetachstate(&attr, &reported->detached);
		pthread_attr_destroy(&attr);
	}
	return NULL;
}

static void a_thread_can_ask_for_its_stack_and_guard(void **state)
{
	const size_t guard = 64 << 10;
	struct reported reported = {.low = NULL};
	pthread_attr_t attr;
	pthread_t thread;
	(void)state;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 1 << 20);
	pthread_attr_setguardsize(&attr, guard);
	assert_int_equal(pthread_create(&thread, &attr, report_attributes, &reported), 0);
	result_of(thread);
	pthread_attr_destroy(&attr);
	assert_in_range(reported.at, (uintptr_t)reported.low,
			(uintptr_t)reported.low + reported.bytes);
	assert_int_equal(reported.guard, guard);
	assert_int_equal(reported.detached, PTHREAD_CREATE_JOINABLE);
	report_attributes(&reported);
	assert_in_range(reported.at, (uintptr_t)reported.low,
			(uintptr_t)reported.low + reported.bytes);
}

/* Recurses until this many bytes of the stack are used. */
__attribute__((noinline)) static size_t go_down(const volatile char *top, size_t bytes)
{
	volatile char here[64];

	here[0] = 1;
	if ((size_t)(top - here) >= bytes)
		return 0;
	return go_down(top, bytes) + (size_t)here[0];
}

static void *use_all_that_was_asked_for(void *argument)
{
	volatile char top = 0;
	return (void *)(go_down(&top, *(size_t *)argument) + (size_t)top);
}

static int end_with_stack(size_t asked, size_t used)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		pthread_attr_t attr;
		pthread_t thread;
		signal(SIGSEGV, SIG_DFL); /* cmocka has a handler */
		pthread_attr_init(&attr);
		pthread_attr_setstacksize(&attr, asked);
		if (pthread_create(&thread, &attr, use_all_that_was_asked_for, &used) == 0)
			pthread_join(thread, NULL);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void a_stack_ends_at_the_size_that_was_set(void **state)
{
	const size_t least = (size_t)sysconf(_SC_THREAD_STACK_MIN), sizes[] = {least, 256 << 10};
	/*
	 * On user level a stack with additions is rounded, by a quarter at most. A small one has
	 * room for what a tick puts onto the stack of a thread that uses all of it: frame and
	 * handler, in pages. A larger one has room for what is more of a frame than the data of
	 * the C library.
	 */
	const size_t frame = (size_t)sysconf(_SC_MINSIGSTKSZ), page = 4096;
	const size_t below[] = {on_user_level() ? least / 4 + frame + 2048 + page : 0,
				on_user_level() && frame > page ? sizes[1] / 4 + frame : 0};

	(void)state;
	for (int i = 0; i < 2; i++) {
		const size_t asked = sizes[i];
		assert_int_equal(end_with_stack(asked, asked - least / 2), 0);
		int status = end_with_stack(asked, asked + below[i]);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	}
}

static void the_size_that_is_reported_is_the_one_that_was_asked_for(void **state)
{
	const size_t least = (size_t)sysconf(_SC_THREAD_STACK_MIN),
		     small = least > 64 << 10 ? least : 64 << 10;
	const size_t sizes[] = {small, small + (4 << 10), 1 << 20, 3 << 20};

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct reported reported = {.low = NULL};
		pthread_attr_t attr;
		pthread_t thread;
		pthread_attr_init(&attr);
		pthread_attr_setstacksize(&attr, sizes[i]);
		assert_int_equal(pthread_create(&thread, &attr, report_attributes, &reported), 0);
		result_of(thread);
		pthread_attr_destroy(&attr);
		if (on_user_level())
			assert_int_equal(reported.bytes, sizes[i]);
		else /* of this C library it may be one that it had left over */
			assert_true(reported.bytes >= sizes[i]);
		assert_in_range(reported.at, (uintptr_t)reported.low,
				(uintptr_t)reported.low + reported.bytes);
	}
}

/* ---- one stack for many ---- */

static atomic_int done, spoilt;

/* Reports that it is done before it is, as a detached thread has to. */
static void *report_done_and_go_on(void *argument)
{
	volatile uintptr_t mine[100];

	for (int i = 0; i < 100; i++)
		mine[i] = (uintptr_t)argument;
	atomic_fetch_add(&done, 1);
	for (int i = 0; i < 5; i++)
		sched_yield();
	for (int i = 0; i < 100; i++)
		atomic_fetch_add(&spoilt, mine[i] != (uintptr_t)argument);
	return NULL;
}

static void a_stack_is_not_used_again_while_somebody_is_on_it(void **state)
{
	const size_t bytes = 256 << 10;
	pthread_attr_t attr;

	(void)state;
	if (!on_user_level()) {
		print_message("# not promised by this C library\n");
		skip();
	}
	char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(stack, MAP_FAILED);
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack, bytes);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (int i = 0; i < 1000; i++) {
		pthread_t thread;
		assert_int_equal(pthread_create(&thread, &attr, report_done_and_go_on,
						(void *)(uintptr_t)(i + 1)),
				 0);
		while (atomic_load(&done) <= i)
			sched_yield();
	}
	/* A joinable thread on the same stack waits for the last detached one in the same way. */
	atomic_int flag = 1;
	pthread_t last;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_JOINABLE);
	assert_int_equal(pthread_create(&last, &attr, wait_for_flag, &flag), 0);
	result_of(last);
	assert_int_equal(atomic_load(&spoilt), 0);
	pthread_attr_destroy(&attr);
	munmap(stack, bytes);
}

static void *run_into_guard(void *argument)
{
	struct reported reported;
	(void)argument;
	report_attributes(&reported);
	/* All of the guard is one, not only the page next to the stack. */
	*((volatile char *)reported.low - reported.guard / 2) = 1;
	return NULL;
}

static void a_guard_is_as_large_as_was_asked_for(void **state)
{
	int status;
	(void)state;
	pid_t child = fork();
	assert_int_not_equal(child, -1);
	if (child == 0) {
		pthread_attr_t attr;
		pthread_t thread;
		signal(SIGSEGV, SIG_DFL); /* cmocka has a handler */
		pthread_attr_init(&attr);
		pthread_attr_setguardsize(&attr, 256 << 10);
		if (pthread_create(&thread, &attr, run_into_guard, NULL) == 0)
			pthread_join(thread, NULL);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

enum { LEFT = 1200 };

static volatile atomic_int small_have_ended;

static void *compute_beside_small_stacks(void *argument)
{
	while (atomic_load(&small_have_ended) < 8)
		;
	return argument;
}

/* Down to nearly the last byte that it may use, and interrupted there. */
__attribute__((noinline)) static void use_down_to(const char *low)
{
	const char *here = __builtin_frame_address(0);
	volatile char *memory = alloca((size_t)(here - low) - LEFT);
	const struct timespec end = in_ms(CLOCK_MONOTONIC, 30);

	memory[0] = 1;
	while (!is_over(&end))
		;
}

static void *use_small_stack(void *argument)
{
	pthread_attr_t attr;
	void *low;
	size_t bytes;

	pthread_getattr_np(pthread_self(), &attr);
	pthread_attr_getstack(&attr, &low, &bytes);
	pthread_attr_destroy(&attr);
	use_down_to(low);
	atomic_fetch_add(&small_have_ended, 1);
	return argument;
}

static void a_small_stack_can_be_used_to_its_end_by_a_thread_that_is_preempted(void **state)
{
	(void)state;
	NEEDS_PREEMPTION();
	pthread_attr_t attr;
	pthread_t computes = start(compute_beside_small_stacks, NULL), threads[8];

	/* The dynamic linker finds clock_gettime(3) here, and not on the last bytes of a stack. */
	in_ms(CLOCK_MONOTONIC, 0);
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN), 0);
	for (int i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], &attr, use_small_stack, NULL), 0);
	for (int i = 0; i < 8; i++)
		result_of(threads[i]);
	result_of(computes);
	pthread_attr_destroy(&attr);
}

int main(void)
{
	limit_to(100);
	const struct CMUnitTest tests[] = {
		/* Before others leave larger stacks, which the C library would use for it. */
		cmocka_unit_test(a_stack_ends_at_the_size_that_was_set),
		cmocka_unit_test(a_thread_runs_on_the_stack_that_it_was_given),
		cmocka_unit_test(a_thread_has_the_stack_size_that_was_asked_for),
		cmocka_unit_test(a_thread_can_ask_for_its_stack_and_guard),
		cmocka_unit_test(the_size_that_is_reported_is_the_one_that_was_asked_for),
		cmocka_unit_test(a_stack_is_not_used_again_while_somebody_is_on_it),
		cmocka_unit_test(a_guard_is_as_large_as_was_asked_for),
		cmocka_unit_test(
			a_small_stack_can_be_used_to_its_end_by_a_thread_that_is_preempted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
