/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "patience.h"
#include "uthread_posix.h"

#include <alloca.h>
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <tek/tek.h>
#include <threads.h>

static void *give_back(void *argument)
{
	return argument;
}

static void *wait_for_flag(void *argument)
{
	while (!atomic_load((atomic_int *)argument))
		nap(1);
	return argument;
}

static void joining_gives_what_the_routine_returns(void **state)
{
	(void)state;
	for (uintptr_t i = 0; i < 1000; i++)
		assert_ptr_equal(result_of(start(give_back, (void *)i)), (void *)i);
}

static void *exit_deep_down(void *argument)
{
	pthread_exit(argument);
}

static void joining_gives_what_was_exited_with(void **state)
{
	(void)state;
	assert_int_equal((intptr_t)result_of(start(exit_deep_down, (void *)7)), 7);
}

static void *report_self(void *argument)
{
	*(pthread_t *)argument = pthread_self();
	return NULL;
}

static void a_thread_knows_its_own_handle(void **state)
{
	pthread_t reported;
	(void)state;
	pthread_t thread = start(report_self, &reported);
	result_of(thread);
	assert_true(pthread_equal(thread, reported));
	assert_false(pthread_equal(thread, pthread_self()));
}

static void a_thread_that_has_been_joined_is_not_found(void **state)
{
	(void)state;
	if (!on_user_level()) {
		print_message("# not promised by this C library\n");
		skip();
	}
	pthread_t thread = start(give_back, NULL);
	result_of(thread);
	assert_int_equal(pthread_join(thread, NULL), ESRCH);
	assert_int_equal(pthread_detach(thread), ESRCH);
	assert_int_equal(pthread_cancel(thread), ESRCH);
	assert_int_equal(pthread_kill(thread, 0), ESRCH);
	assert_int_equal(pthread_kill((pthread_t)0, 0), ESRCH);
}

static void nobody_joins_himself(void **state)
{
	(void)state;
	assert_int_equal(pthread_join(pthread_self(), NULL), EDEADLK);
}

static void a_detached_thread_cannot_be_joined(void **state)
{
	static atomic_int flag; /* the thread may read it at any time */
	(void)state;
	pthread_t thread = start(wait_for_flag, &flag);
	assert_int_equal(pthread_detach(thread), 0);
	assert_int_equal(pthread_join(thread, NULL), EINVAL);
	assert_int_equal(pthread_detach(thread), EINVAL);
	atomic_store(&flag, 1);
	nap(20);
}

static void joining_can_be_tried_and_has_a_time(void **state)
{
	atomic_int flag = 0;
	(void)state;
	pthread_t thread = start(wait_for_flag, &flag);
	assert_int_equal(pthread_tryjoin_np(thread, NULL), EBUSY);
	const struct timespec soon = in_ms(CLOCK_REALTIME, 20);
	assert_int_equal(pthread_timedjoin_np(thread, NULL, &soon), ETIMEDOUT);
	atomic_store(&flag, 1);
	assert_ptr_equal(result_of(thread), &flag);
}

static atomic_int sum;

static void *add_one(void *argument)
{
	atomic_fetch_add(&sum, 1);
	return argument;
}

static void thousands_of_detached_threads_run_and_are_forgotten(void **state)
{
	pthread_attr_t attr;
	(void)state;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (int i = 0; i < 3000; i++) {
		pthread_t thread;
		assert_int_equal(pthread_create(&thread, &attr, add_one, NULL), 0);
		if (i % 100 == 99)
			assert_true(becomes(&sum, i + 1));
	}
	pthread_attr_destroy(&attr);
}

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

static void a_name_is_returned_as_it_was_set(void **state)
{
	atomic_int flag = 0;
	char name[16];
	(void)state;
	pthread_t thread = start(wait_for_flag, &flag);
	assert_int_equal(pthread_setname_np(thread, "fifteen letters"), 0);
	assert_int_equal(pthread_setname_np(thread, "sixteen letters!"), ERANGE);
	assert_int_equal(pthread_getname_np(thread, name, sizeof(name)), 0);
	assert_string_equal(name, "fifteen letters");
	assert_int_equal(pthread_getname_np(thread, name, 3), ERANGE);
	atomic_store(&flag, 1);
	result_of(thread);
}

static int give_three(void *argument)
{
	(void)argument;
	thrd_exit(3);
}

static void threads_of_c11_are_threads(void **state)
{
	thrd_t thread;
	int result = 0;
	(void)state;
	assert_int_equal(thrd_create(&thread, give_three, NULL), thrd_success);
	assert_int_equal(thrd_join(thread, &result), thrd_success);
	assert_int_equal(result, 3);
	assert_true(thrd_equal(thrd_current(), thrd_current()));
}

static void priorities_are_returned_as_they_were_set(void **state)
{
	struct sched_param param = {.sched_priority = 10};
	atomic_int flag = 0;
	int policy;
	(void)state;
	pthread_t thread = start(wait_for_flag, &flag);
	assert_int_equal(pthread_setschedparam(thread, 4711, &param), EINVAL);
	if (pthread_setschedparam(thread, SCHED_RR, &param) == 0) {
		assert_int_equal(pthread_getschedparam(thread, &policy, &param), 0);
		assert_int_equal(policy, SCHED_RR);
		assert_int_equal(param.sched_priority, 10);
	}
	atomic_store(&flag, 1);
	result_of(thread);
}

struct runner {
	sem_t begun, go;
	atomic_int *iteration;
	int went; /* its place in the order: 0, 1 */
};

static void *run_in_order(void *argument)
{
	struct runner *runner = argument;

	sem_post(&runner->begun);
	while (sem_wait(&runner->go) != 0)
		;
	runner->went = atomic_fetch_add(runner->iteration, 1);
	return NULL;
}

static void a_priority_of_sched_tek_is_a_nice_value(void **state)
{
	static const int nice[] = {5, -5};
	struct sched_param param = {.sched_priority = TEK_PRIORITY_MIN - 1};
	struct runner runners[2];
	pthread_t threads[2];
	atomic_int iteration = 0;
	int policy;

	(void)state;
	if (!on_user_level())
		skip(); /* the C library does not know the policy */
	assert_int_equal(sched_get_priority_min(SCHED_TEK), TEK_PRIORITY_MIN);
	assert_int_equal(sched_get_priority_max(SCHED_TEK), TEK_PRIORITY_MAX);
	assert_int_equal(sched_get_priority_max(SCHED_FIFO), 99);
	assert_int_equal(sched_get_priority_min(4711), -1);
	assert_int_equal(pthread_setschedparam(pthread_self(), SCHED_TEK, &param), EINVAL);
	param.sched_priority = TEK_PRIORITY_MAX + 1;
	assert_int_equal(pthread_setschedparam(pthread_self(), SCHED_TEK, &param), EINVAL);

	for (int i = 0; i < 2; i++) {
		runners[i].iteration = &iteration;
		sem_init(&runners[i].begun, 0, 0);
		sem_init(&runners[i].go, 0, 0);
		threads[i] = start(run_in_order, &runners[i]);
		sem_wait(&runners[i].begun);
		param.sched_priority = nice[i];
		assert_int_equal(pthread_setschedparam(threads[i], SCHED_TEK, &param), 0);
		assert_int_equal(pthread_getschedparam(threads[i], &policy, &param), 0);
		assert_int_equal(policy, SCHED_TEK);
		assert_int_equal(param.sched_priority, nice[i]);
	}
	param.sched_priority = TEK_PRIORITY_MIN;
	assert_int_equal(pthread_setschedparam(pthread_self(), SCHED_TEK, &param), 0);
	for (int i = 0; i < 2; i++)
		sem_post(&runners[i].go);
	for (int i = 0; i < 2; i++)
		result_of(threads[i]);
	/* Where both do not run at once the lesser value goes first. */
	if (strstr(getenv("TEK_UTHREAD"), "workers=1"))
		assert_int_equal(runners[1].went, 0);
	param.sched_priority = 0;
	assert_int_equal(pthread_setschedparam(pthread_self(), SCHED_OTHER, &param), 0);
}

static void *leave_main_and_print(void *argument)
{
	nap(50);
	(void)!write(*(int *)argument, "x", 1);
	return NULL;
}

static void the_process_lives_until_its_last_thread_ends(void **state)
{
	static int ends[2];
	char byte = 0;
	int status;
	(void)state;
	assert_int_equal(pipe(ends), 0);
	pid_t child = fork();
	assert_int_not_equal(child, -1);
	if (child == 0) {
		pthread_t thread;
		pthread_create(&thread, NULL, leave_main_and_print, &ends[1]);
		pthread_exit(NULL);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	close(ends[0]);
	close(ends[1]);
}

static void *fork_and_make_threads(void *argument)
{
	(void)argument;
	pid_t child = fork();
	if (child == 0) {
		for (int round = 0; round < 20; round++) {
			pthread_t threads[10];
			for (int i = 0; i < 10; i++) {
				if (pthread_create(&threads[i], NULL, give_back, NULL) != 0)
					_exit(1);
			}
			for (int i = 0; i < 10; i++) {
				if (pthread_join(threads[i], NULL) != 0)
					_exit(2);
			}
			nap(1);
		}
		_exit(0);
	}
	int status = -1;
	waitpid(child, &status, 0);
	return (void *)(intptr_t)status;
}

static void children_of_any_thread_have_threads_of_their_own(void **state)
{
	(void)state;
	assert_int_equal((intptr_t)fork_and_make_threads(NULL), 0);
	for (int round = 0; round < 5; round++) {
		pthread_t threads[4];
		for (int i = 0; i < 4; i++)
			threads[i] = start(fork_and_make_threads, NULL);
		for (int i = 0; i < 4; i++)
			assert_int_equal((intptr_t)result_of(threads[i]), 0);
	}
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
		cmocka_unit_test(joining_gives_what_the_routine_returns),
		cmocka_unit_test(joining_gives_what_was_exited_with),
		cmocka_unit_test(a_thread_knows_its_own_handle),
		cmocka_unit_test(a_thread_that_has_been_joined_is_not_found),
		cmocka_unit_test(nobody_joins_himself),
		cmocka_unit_test(a_detached_thread_cannot_be_joined),
		cmocka_unit_test(joining_can_be_tried_and_has_a_time),
		cmocka_unit_test(thousands_of_detached_threads_run_and_are_forgotten),
		cmocka_unit_test(a_thread_runs_on_the_stack_that_it_was_given),
		cmocka_unit_test(a_thread_has_the_stack_size_that_was_asked_for),
		cmocka_unit_test(a_thread_can_ask_for_its_stack_and_guard),
		cmocka_unit_test(the_size_that_is_reported_is_the_one_that_was_asked_for),
		cmocka_unit_test(a_stack_is_not_used_again_while_somebody_is_on_it),
		cmocka_unit_test(a_guard_is_as_large_as_was_asked_for),
		cmocka_unit_test(a_name_is_returned_as_it_was_set),
		cmocka_unit_test(threads_of_c11_are_threads),
		cmocka_unit_test(priorities_are_returned_as_they_were_set),
		cmocka_unit_test(a_priority_of_sched_tek_is_a_nice_value),
		cmocka_unit_test(the_process_lives_until_its_last_thread_ends),
		cmocka_unit_test(children_of_any_thread_have_threads_of_their_own),
		cmocka_unit_test(
			a_small_stack_can_be_used_to_its_end_by_a_thread_that_is_preempted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
