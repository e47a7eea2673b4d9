/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sizes, guards and defaults that the program chose itself. */
#include "base/page.h"
#include "size_support.h"

#include "stack/size.h"

#include <sys/mman.h>

static void a_size_that_the_program_chose_is_respected_unless_overridden(void **state)
{
	pthread_attr_t attr;

	(void)state;
	need_tuner();
	pthread_attr_init(&attr);
	/* Attributes without a size count as no attributes. */
	assert_true(create_here(known, &attr).stack.flags & TEK_STACK_TUNED);
	pthread_attr_setstacksize(&attr, 2 * MIB);
	struct shape shape = create_here(known, &attr);
	assert_int_equal(shape.bytes, 2 * MIB);
	assert_int_equal(shape.stack.flags & (TEK_STACK_TUNED | TEK_STACK_EXPLICIT),
			 TEK_STACK_EXPLICIT);
	tek__stack_config.override = true;
	shape = create_here(known, &attr);
	tek__stack_config.override = false;
	assert_in_range(shape.bytes, KNOWN_BOUND * 3 / 2, KNOWN_BOUND * 3 / 2 + 2 * 4096);
	assert_int_equal(shape.stack.flags & (TEK_STACK_TUNED | TEK_STACK_EXPLICIT),
			 TEK_STACK_TUNED | TEK_STACK_EXPLICIT);
	pthread_attr_destroy(&attr);
}

static void a_size_that_is_smaller_than_ours_stays(void **state)
{
	const size_t small = stack_bytes(64 * KIB);
	/* The C library may give a stack of an earlier thread, of up to four times the size. */
	const size_t most = small == 64 * KIB ? small : 4 * small;
	pthread_attr_t attr;

	(void)state;
	need_tuner();
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, small);
	tek__stack_config.override = true;
	const struct shape shape = create_here(known, &attr);
	tek__stack_config.override = false;
	pthread_attr_destroy(&attr);
	assert_in_range(shape.bytes, small, most);
	assert_false(shape.stack.flags & TEK_STACK_TUNED);
}

static void memory_of_the_program_is_never_touched(void **state)
{
	pthread_attr_t attr;
	void *memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	need_tuner();
	assert_ptr_not_equal(memory, MAP_FAILED);
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstack(&attr, memory, MIB), 0);
	tek__stack_config.override = true;
	const struct shape shape = create_here(known, &attr);
	tek__stack_config.override = false;
	pthread_attr_destroy(&attr);
	munmap(memory, MIB);
	assert_int_equal(shape.bytes, MIB);
	assert_false(shape.stack.flags & TEK_STACK_TUNED);
	assert_true(shape.stack.flags & TEK_STACK_EXPLICIT);
}

static void a_fitted_stack_has_a_guard_even_if_the_program_wants_none(void **state)
{
	pthread_attr_t attr;

	(void)state;
	need_tuner();
	pthread_attr_init(&attr);
	pthread_attr_setguardsize(&attr, 0);
	const struct shape ours = create_here(known, &attr), theirs = create_here(unknown, &attr);
	pthread_attr_destroy(&attr);
	assert_true(ours.stack.flags & TEK_STACK_TUNED);
	assert_true(ours.guard_bytes >= tek__page_bytes);
	assert_int_equal(theirs.guard_bytes, 0);
}

static int many_with_few_addresses(void)
{
	const struct rlimit limit = {1 << 30, 1 << 30};
	struct shape shape = {0};

	setrlimit(RLIMIT_AS, &limit);
	for (int i = 0; i < 100; i++)
		shape = create_here(known, NULL);
	return shape.stack.flags & TEK_STACK_TUNED && shape.guard_bytes == tek__page_bytes;
}

static int tight(void)
{
	tek__stack_config.mode = TEK_STACK_MODE_TIGHT;
	const struct shape shape = create_here(known, NULL);
	return shape.stack.flags & TEK_STACK_TUNED && shape.guard_bytes == tek__page_bytes;
}

static void the_guard_is_a_page_where_addresses_are_few_and_in_tight(void **state)
{
	(void)state;
	need_tuner();
	assert_int_equal(in_child(many_with_few_addresses), 1);
	assert_int_equal(in_child(tight), 1);
}

static void the_other_values_of_the_attributes_stay(void **state)
{
	pthread_attr_t attr;
	struct shape shape = {0};
	pthread_t thread;
	int detached = 0;

	(void)state;
	need_tuner();
	pthread_attr_init(&attr);
	pthread_attr_setguardsize(&attr, 300 * tek__page_bytes);
	struct tek_thread next = {.role = ""};
	pthread_attr_t own;
	assert_int_equal(pthread_create(&thread, &attr, known, &shape), 0);
	pthread_join(thread, NULL);
	assert_int_equal(shape.guard_bytes, 300 * tek__page_bytes);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	next.stack.site = shape.stack.site;
	assert_true(tek__lock());
	const pthread_attr_t *chosen = tek__size_choose(&next, &attr, &own);
	tek__unlock();
	assert_ptr_equal(chosen, &own);
	pthread_attr_getdetachstate(&own, &detached);
	assert_int_equal(detached, PTHREAD_CREATE_DETACHED);
	pthread_attr_destroy(&attr);
}

static void report_changes_no_stack(void **state)
{
	(void)state;
	need_tuner();
	tek__stack_config.mode = TEK_STACK_MODE_REPORT;
	const struct shape shape = create_here(known, NULL);
	tek__stack_config.mode = TEK_STACK_MODE_AUTO;
	assert_int_equal(shape.bytes, DEFAULT_BYTES);
	assert_false(shape.stack.flags & TEK_STACK_TUNED);
	assert_int_not_equal(shape.stack.site, 0);
}

static int changes_defaults(void)
{
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 4 * MIB);
	pthread_setattr_default_np(&attr);
	const struct shape shape = create_here(known, NULL);
	/* The C library may give a larger stack of an earlier thread. */
	return shape.bytes >= 4 * MIB &&
	       (shape.stack.flags & (TEK_STACK_TUNED | TEK_STACK_EXPLICIT)) == TEK_STACK_EXPLICIT;
}

static void defaults_that_the_program_changed_are_a_choice_of_its_own(void **state)
{
	(void)state;
	need_tuner();
	assert_int_equal(in_child(changes_defaults), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_size_that_the_program_chose_is_respected_unless_overridden),
		cmocka_unit_test(a_size_that_is_smaller_than_ours_stays),
		cmocka_unit_test(memory_of_the_program_is_never_touched),
		cmocka_unit_test(a_fitted_stack_has_a_guard_even_if_the_program_wants_none),
		cmocka_unit_test(the_guard_is_a_page_where_addresses_are_few_and_in_tight),
		cmocka_unit_test(the_other_values_of_the_attributes_stay),
		cmocka_unit_test(report_changes_no_stack),
		cmocka_unit_test(defaults_that_the_program_changed_are_a_choice_of_its_own),
	};

	if (!has_profile())
		return run_with_profile(print_kinds);
	return cmocka_run_group_tests_name("stack_size_chosen", tests, NULL, NULL);
}
