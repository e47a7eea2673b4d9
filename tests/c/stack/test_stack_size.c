/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a profile does to the stacks of threads.  The program runs itself once more, with a
 * profile of its own threads.
 */
#include "base/page.h"
#include "size_support.h"

#include "stack/fit.h"

#include <sys/uio.h>

static void a_known_kind_gets_a_fitting_stack_with_a_guard(void **state)
{
	(void)state;
	need_tuner();
	const struct shape shape = create_here(known, NULL);
	assert_in_range(shape.bytes, KNOWN_BOUND * 3 / 2, KNOWN_BOUND * 3 / 2 + 2 * 4096);
	assert_true(shape.stack.flags & TEK_STACK_TUNED);
	assert_false(shape.stack.flags & TEK_STACK_EXPLICIT);
	/* More than a page, which a large array would jump over. */
	assert_int_equal(shape.guard_bytes, sizeof(void *) > 4 ? 64 * KIB : tek__page_bytes);
}

static void an_unknown_kind_keeps_its_stack(void **state)
{
	(void)state;
	need_tuner();
	const struct shape shape = create_here(unknown, NULL);
	assert_int_equal(shape.bytes, DEFAULT_BYTES);
	assert_false(shape.stack.flags & TEK_STACK_TUNED);
	assert_int_equal(create_here(elsewhere, NULL).bytes, DEFAULT_BYTES);
}

static void a_kind_of_one_caller_does_not_apply_to_other_callers(void **state)
{
	(void)state;
	need_tuner();
	assert_in_range(create_there(by_caller).bytes, CALLER_BOUND * 3 / 2,
			CALLER_BOUND * 3 / 2 + 2 * 4096);
	assert_int_equal(create_here(by_caller, NULL).bytes, DEFAULT_BYTES);
}

static void a_kind_that_overflowed_gets_up_to_four_times_what_its_program_asks_for(void **state)
{
	(void)state;
	need_tuner();
	const struct shape shape = create_here(overflowed, NULL);
	assert_int_equal(shape.bytes, 4 * DEFAULT_BYTES);
	assert_true(shape.stack.flags & TEK_STACK_TUNED);
}

static void a_kind_that_overflowed_a_small_stack_gets_what_its_program_asks_for(void **state)
{
	pthread_attr_t attr;

	(void)state;
	need_tuner();
	struct shape shape = create_here(overflowed_small, NULL);
	assert_int_equal(shape.bytes, DEFAULT_BYTES);
	assert_true(shape.stack.flags & TEK_STACK_TUNED);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 3 * MIB);
	tek__stack_config.override = true;
	shape = create_here(overflowed_small, &attr);
	tek__stack_config.override = false;
	pthread_attr_destroy(&attr);
	/* The C library may give a larger stack of an earlier thread. */
	assert_true(shape.bytes >= 3 * MIB);
	assert_true(shape.stack.flags & TEK_STACK_TUNED);
}

/* In a child, so that the C library does not give its stacks to threads of other tests. */
static int nearly_fill(void)
{
	pthread_attr_t attr;
	struct shape shape = create_here(nearly_full, NULL);
	const size_t over = shape.bytes - NEARLY_FULL / 2 * 3;

	if (!(shape.stack.flags & TEK_STACK_TUNED) || over > 2 * 4096)
		return 1;
	if (create_here(perhaps_full, NULL).stack.flags & TEK_STACK_TUNED)
		return 2;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 7 * MIB);
	return create_here(nearly_full, &attr).stack.flags & TEK_STACK_TUNED ? 3 : 0;
}

static void a_kind_that_nearly_fills_its_program_s_stack_gets_a_larger_one(void **state)
{
	(void)state;
	need_tuner();
	assert_int_equal(in_child(nearly_fill), 0);
}

static int grow_again(void)
{
	const size_t bytes = create_here(grown, NULL).bytes;
	const size_t expected = (2 * KNOWN_BOUND - GROWN_FROM) * 3 / 2;

	return bytes < expected || bytes > expected + 2 * 4096;
}

static void a_kind_that_has_grown_can_grow_again_by_as_much(void **state)
{
	(void)state;
	need_tuner();
	assert_int_equal(in_child(grow_again), 0);
}

/*
 * Threads of a pool: their use is known without a label, and with two names.  The most that one
 * reads of its own stack, in KiB.
 */
/* A stack with room for little, also where PTHREAD_STACK_MIN is 128 KiB (aarch64). */
#define SMALL ((size_t)PTHREAD_STACK_MIN + 112 * KIB)

ONE_COPY static struct pooled run_pooled(const char *name, bool by_system_call)
{
	struct pooled job = {.name = name, .by_system_call = by_system_call};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, pooled, &job), 0);
	pthread_join(thread, NULL);
	return job;
}

static void a_thread_gets_the_stack_of_its_kind_when_it_gets_its_name(void **state)
{
	(void)state;
	need_tuner();
	const struct pooled flat = run_pooled("flat", false);
	assert_true(flat.before < SMALL);
	assert_int_equal(flat.after, flat.before);
	/* A program that asks gets the size to which the stack may grow. */
	assert_in_range(flat.reported, DEEP_BOUND * 3 / 2, DEEP_BOUND * 3 / 2 + 2 * 4096);
	const struct pooled deep = run_pooled("deep", true);
	assert_int_equal(deep.before, flat.before);
	assert_in_range(deep.after, DEEP_BOUND * 3 / 2, DEEP_BOUND * 3 / 2 + 2 * 4096);
	assert_int_equal(deep.used, DEEP_USE);
	assert_false(deep.grown);
	/* A thread of a new kind may be as deep as any other. */
	assert_true(run_pooled("other", true).after >= DEEP_BOUND * 3 / 2);
}

static void a_thread_that_is_deep_before_it_has_a_name_grows(void **state)
{
	(void)state;
	need_tuner();
	const struct pooled nameless = run_pooled(NULL, false);
	assert_true(nameless.before < SMALL);
	assert_int_equal(nameless.used, DEEP_USE);
	assert_true(nameless.grown);
	assert_true(run_pooled("flat", false).before > DEEP_USE);
}

static void what_was_room_is_guard_again_when_the_thread_has_ended(void **state)
{
	char byte;

	(void)state;
	need_tuner();
	/* The C library keeps its stack for the next thread. */
	const struct pooled deep = run_pooled("deep", false);
	struct iovec to = {&byte, 1}, from = {(void *)deep.low, 1};
	assert_int_equal(process_vm_readv(getpid(), &to, 1, &from, 1, 0), -1);
	from.iov_base = (char *)deep.low + deep.after - 1;
	assert_int_equal(process_vm_readv(getpid(), &to, 1, &from, 1, 0), 1);
}

/* A new thread checks whether an earlier one with a signal stack has ended: a call that fails. */
static void errno_is_zero_where_a_thread_begins(void **state)
{
	(void)state;
	need_tuner();
	create_here(known, NULL);
	assert_int_equal(create_there(by_caller).error, 0);
}

/* It would take a second, and a gigabyte. */
static void exact_does_not_paint_a_huge_stack(void **state)
{
	(void)state;
	need_tuner();
	tek__stack_config.exact = true;
	const struct shape shape = create_here(overflowed, NULL);
	tek__stack_config.exact = false;
	assert_true(shape.bytes > 8 * MIB);
	assert_true(shape.stack.painted_from > shape.stack.end - MIB);
}

static void where_memory_is_short_the_program_s_own_size_counts(void **state)
{
	struct rlimit before, limit;
	pthread_attr_t attr;
	unsigned long pages;

	(void)state;
	need_tuner();
	FILE *statm = fopen("/proc/self/statm", "r");
	assert_non_null(statm);
	assert_int_equal(fscanf(statm, "%lu", &pages), 1);
	fclose(statm);
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	limit = before;
	limit.rlim_cur = pages * tek__page_bytes + 256 * MIB;
	/* Four times as much cannot be had; and of huge stacks none is kept for the next one. */
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 100 * MIB);
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	tek__stack_config.override = true;
	const struct shape shape = create_here(overflowed, &attr);
	tek__stack_config.override = false;
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	pthread_attr_destroy(&attr);
	assert_int_equal(shape.bytes, 100 * MIB);
	assert_false(shape.stack.flags & TEK_STACK_TUNED);
}

static void sizes_follow_mode_margin_and_floor(void **state)
{
	const struct tek_stack_config before = tek__stack_config;
	const struct tek_known nothing = {0}, small = {.bound_bytes = 4000},
			       large = {.bound_bytes = 1000000},
			       over = {.bound_bytes = 10000, .overflow_bytes = 300000},
			       absurd = {.bound_bytes = 900 * (size_t)MIB};
	const size_t least = (size_t)sysconf(_SC_THREAD_STACK_MIN);

	(void)state;
	need_tuner();
	assert_int_equal(tek__size_for(&nothing), 0);
	assert_in_range(tek__size_for(&small), 64 * KIB + 4 * KIB, 256 * KIB);
	assert_int_equal(tek__size_for(&large), 1503232); /* 367 pages */
	assert_int_equal(tek__size_for(&over), 602112);   /* 147 pages */
	assert_int_equal(tek__size_for(&absurd), 1 << 30);
	tek__stack_config.mode = TEK_STACK_MODE_TIGHT;
	assert_int_equal(tek__size_for(&large), 1081344); /* 264 pages */
	assert_in_range(tek__size_for(&small), least, stack_bytes(64 * KIB));
	tek__stack_config.margin_percent = 200;
	tek__stack_config.floor_bytes = 128 * KIB;
	assert_int_equal(tek__size_for(&large), 2002944); /* 489 pages */
	assert_int_equal(tek__size_for(&small), 128 * KIB);
	tek__stack_config.mode = TEK_STACK_MODE_REPORT;
	assert_int_equal(tek__size_for(&large), 0);
	tek__stack_config = before;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_known_kind_gets_a_fitting_stack_with_a_guard),
		cmocka_unit_test(an_unknown_kind_keeps_its_stack),
		cmocka_unit_test(a_kind_of_one_caller_does_not_apply_to_other_callers),
		cmocka_unit_test(errno_is_zero_where_a_thread_begins),
		cmocka_unit_test(exact_does_not_paint_a_huge_stack),
		cmocka_unit_test(where_memory_is_short_the_program_s_own_size_counts),
		cmocka_unit_test(a_kind_that_has_grown_can_grow_again_by_as_much),
		cmocka_unit_test(a_thread_gets_the_stack_of_its_kind_when_it_gets_its_name),
		cmocka_unit_test(what_was_room_is_guard_again_when_the_thread_has_ended),
		/* From here on threads without a name are known to be deep. */
		cmocka_unit_test(a_thread_that_is_deep_before_it_has_a_name_grows),
		cmocka_unit_test(a_kind_that_nearly_fills_its_program_s_stack_gets_a_larger_one),
		cmocka_unit_test(
			a_kind_that_overflowed_a_small_stack_gets_what_its_program_asks_for),
		cmocka_unit_test(
			a_kind_that_overflowed_gets_up_to_four_times_what_its_program_asks_for),
		cmocka_unit_test(sizes_follow_mode_margin_and_floor),
	};

	if (!has_profile())
		return run_with_profile(print_kinds);
	return cmocka_run_group_tests_name("stack_size", tests, NULL, NULL);
}
