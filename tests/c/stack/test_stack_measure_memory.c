/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stacks in memory that is not as usual: the program's own, locked, of huge pages, forbidden in
 * part, or a forked child's copy.
 */
#include "measure_support.h"

#include "stack/config.h"

static void a_stack_of_the_programs_own_is_measured(void **state)
{
	(void)state;
	struct job job = {.use = use_stack, .bytes = 100 * KIB};
	char *memory = new_memory(MIB);
	run_on_own_stack(&job, memory, MIB);
	assert_peak_is_right(&job);
	/* Used again: what is there is not cleaned, and deeper use shows. */
	job.bytes = 50 * KIB;
	run_on_own_stack(&job, memory, MIB);
	assert_right(&job);
	assert_true(newest.flags & TEK_STACK_UNCLEAN);
	job.bytes = 200 * KIB;
	run_on_own_stack(&job, memory, MIB);
	assert_peak_is_right(&job);
	munmap(memory, MIB);
}

static void a_stack_that_its_program_painted_keeps_its_paint_and_is_measured_exactly(void **state)
{
	(void)state;
	struct job job = {.use = use_stack, .bytes = 100 * KIB + 1};
	char *memory = new_memory(MIB);
	memset(memory, 0x5a, MIB);
	run_on_own_stack(&job, memory, MIB);
	assert_exact(&job);
	for (size_t i = 0; i < MIB - job.truth; i++)
		if (memory[i] != 0x5a)
			fail_msg("its paint at %zu was changed", i);
	munmap(memory, MIB);
}

static void with_huge_pages_the_interval_holds_and_the_peak_is_right(void **state)
{
	(void)state;
	struct job job = {.use = use_stack, .bytes = 100 * KIB};
	char *memory = new_memory(8 * MIB);
	char *aligned = (char *)(((uintptr_t)memory + 2 * MIB - 1) & ~(uintptr_t)(2 * MIB - 1));
	madvise(aligned, 4 * MIB, MADV_HUGEPAGE);
	run_on_own_stack(&job, aligned, 4 * MIB);
	assert_peak_is_right(&job);
	munmap(memory, 8 * MIB);
}

/* A process of its own, whose stacks are all new. */
static int measure_locked(void)
{
	struct job job = {.use = use_stack};
	pthread_t thread;

	if (mlockall(MCL_FUTURE) || pthread_create(&thread, NULL, nothing, NULL))
		return 77;
	pthread_join(thread, NULL);
	for (int i = 0; i < 6; i++) {
		job.bytes = i == 2 ? 120001 : 30 * KIB + 1;
		if (pthread_create(&thread, NULL, work, &job))
			return 2;
		pthread_join(thread, NULL);
		if (newest.peak_bytes != job.truth || newest.bound_bytes != job.truth ||
		    job.live.peak_bytes != job.truth || job.live.bound_bytes != job.truth)
			return 1;
	}
	return 0;
}

/* All pages of a stack that was used before come to be there without a fault of the next thread. */
static int measure_locked_since(void)
{
	struct job job = {.use = use_stack};
	pthread_t thread;

	for (int i = 0; i < 6; i++) {
		job.bytes = i < 4 ? 5 * KIB : i == 4 ? 120001 : 30 * KIB + 1;
		if (i == 3 && mlockall(MCL_CURRENT | MCL_FUTURE))
			return 77;
		if (pthread_create(&thread, NULL, work, &job))
			return 2;
		pthread_join(thread, NULL);
		if (newest.peak_bytes > job.truth || newest.bound_bytes < job.truth)
			return 1;
	}
	/* The last thread's stack was painted over, and its owner is known. */
	return newest.bound_bytes == job.truth ? 0 : 3;
}

static int begin_locked_since(void)
{
	execl("/proc/self/exe", program_invocation_short_name, "since", NULL);
	return 126;
}

static void a_process_that_locks_its_memory_later_is_measured_rightly(void **state)
{
	(void)state;
	int result = in_child(begin_locked_since);
	if (result == 77) {
		print_message("# RLIMIT_MEMLOCK forbids locking a stack\n");
		skip();
	}
	assert_int_equal(result, 0);
}

static int begin_locked(void)
{
	execl("/proc/self/exe", program_invocation_short_name, "locked", NULL);
	return 126;
}

static void in_a_locked_process_the_measure_is_exact(void **state)
{
	(void)state;
	int result = in_child(begin_locked);
	if (result == 77) {
		print_message("# RLIMIT_MEMLOCK forbids locking a stack\n");
		skip();
	}
	assert_int_equal(result, 0);
}

/* 8 pages below its frame, and it leaves it so. */
static uintptr_t forbid_a_page(size_t bytes)
{
	uintptr_t lowest = use_stack(bytes);
	uintptr_t page = ((uintptr_t)__builtin_frame_address(0) & ~4095ul) - 8ul * 4096;

	assert_int_equal(mprotect((void *)page, 4096, bytes & 1 ? PROT_READ : PROT_NONE), 0);
	return lowest;
}

/* A process of its own, whose stacks are all new. */
static int measure_forbidden(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	struct job job;

	for (int i = 0; i < 24; i++) {
		char *memory = i < 12 ? NULL : new_memory(MIB);
		tek__stack_config.exact = i & 4;
		if (i & 8 && mlockall(MCL_CURRENT | MCL_FUTURE))
			break;
		job = (struct job){.use = forbid_a_page, .bytes = (60 + (size_t)i) * KIB + (i & 1)};
		pthread_attr_init(&attr);
		/* New sizes, so that no thread runs into the page that another left. */
		pthread_attr_setstacksize(&attr, (200 + 40 * (size_t)i) * KIB);
		if (memory)
			pthread_attr_setstack(&attr, memory, MIB);
		if (pthread_create(&thread, &attr, work, &job))
			return 2;
		pthread_join(thread, NULL);
		pthread_attr_destroy(&attr);
		if (newest.peak_bytes > job.truth || newest.bound_bytes < job.truth)
			return 1;
	}
	return 0;
}

static int begin_forbidden(void)
{
	execl("/proc/self/exe", program_invocation_short_name, "forbidden", NULL);
	return 126;
}

static void a_page_that_the_program_forbids_is_not_touched(void **state)
{
	(void)state;
	assert_int_equal(in_child(begin_forbidden), 0);
}

/* Its own guard page, which was used before. */
static int measure_with_own_guard(void)
{
	struct job job = {.use = use_stack, .bytes = 30 * KIB};
	char *memory = new_memory(MIB);

	memset(memory, 1, 8192);
	mprotect(memory, 4096, PROT_NONE);
	run_on_own_stack(&job, memory, MIB);
	return newest.peak_bytes <= job.truth && newest.bound_bytes >= job.truth ? 0 : 1;
}

static void nor_is_a_guard_of_its_own(void **state)
{
	(void)state;
	assert_int_equal(in_child(measure_with_own_guard), 0);
}

static int measure_in_child(void)
{
	struct job job = {.use = use_stack, .bytes = 70 * KIB};
	pthread_t thread;

	for (int i = 0; i < 4; i++) {
		job.bytes += 10 * KIB;
		if (pthread_create(&thread, NULL, work, &job))
			return 2;
		pthread_join(thread, NULL);
		if (newest.peak_bytes != job.truth || job.live.peak_bytes != job.truth ||
		    newest.bound_bytes > job.truth + 4 * KIB)
			return 1;
	}
	return 0;
}

static void in_the_child_of_a_fork_it_is_the_childs_memory_that_counts(void **state)
{
	(void)state;
	assert_int_equal(in_child(measure_in_child), 0);
}

static void *fork_in_thread(void *argument)
{
	*(int *)argument = in_child(measure_in_child);
	return NULL;
}

static void so_too_where_a_thread_forks(void **state)
{
	(void)state;
	pthread_t thread;
	int result = -1;
	pthread_create(&thread, NULL, fork_in_thread, &result);
	pthread_join(thread, NULL);
	assert_int_equal(result, 0);
}

int main(int count, char **arguments)
{
	if (count > 1)
		return strcmp(arguments[1], "locked") == 0  ? measure_locked()
		       : strcmp(arguments[1], "since") == 0 ? measure_locked_since()
							    : measure_forbidden();
	measure_in(arguments, "report,period=0");
	if (cannot_measure())
		return 0;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stack_of_the_programs_own_is_measured),
		cmocka_unit_test(
			a_stack_that_its_program_painted_keeps_its_paint_and_is_measured_exactly),
		cmocka_unit_test(with_huge_pages_the_interval_holds_and_the_peak_is_right),
		cmocka_unit_test(in_a_locked_process_the_measure_is_exact),
		cmocka_unit_test(a_process_that_locks_its_memory_later_is_measured_rightly),
		cmocka_unit_test(a_page_that_the_program_forbids_is_not_touched),
		cmocka_unit_test(nor_is_a_guard_of_its_own),
		cmocka_unit_test(in_the_child_of_a_fork_it_is_the_childs_memory_that_counts),
		cmocka_unit_test(so_too_where_a_thread_forks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
