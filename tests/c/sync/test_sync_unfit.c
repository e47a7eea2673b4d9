/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libtek-sync.so with a C library that has another layout of pthread objects: these stay the C
 * library's.
 */
#include "unfit.h"

#define CHOSEN "TEK_SYNC=lock=mcs,rwlock=pf,barrier=central"

static char output[4096];

static void locks_that_do_not_fit_stay_the_c_librarys_and_that_is_reported(void **state)
{
	static const char *const objects[] = {"cond", "mutex"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(use_with(objects[i], CHOSEN, output, sizeof(output)), 0);
		assert_non_null(strstr(output, "tek: this C library's mutexes and condition "
					       "variables are not as any that TEK knows: they stay "
					       "those of the C library\n"));
		assert_non_null(strstr(output, "met 200 times\n"));
	}
}

static void rwlocks_and_barriers_that_do_not_fit_stay_the_c_librarys(void **state)
{
	(void)state;
	assert_int_equal(use_with("rwlock", CHOSEN, output, sizeof(output)), 0);
	assert_non_null(strstr(output, "tek: this C library's read-write locks are not"));
	assert_null(strstr(output, "mutexes"));
	assert_non_null(strstr(output, "met 200 times\n"));
	assert_int_equal(use_with("barrier", CHOSEN, output, sizeof(output)), 0);
	assert_non_null(strstr(output, "tek: this C library's barriers are not"));
	assert_null(strstr(output, "mutexes"));
	assert_non_null(strstr(output, "met 200 times\n"));
}

static void with_this_c_library_all_fit(void **state)
{
	(void)state;
	assert_int_equal(use_with("", CHOSEN, output, sizeof(output)), 0);
	assert_string_equal(output, "met 200 times\n");
}

int main(int count, char **arguments)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(locks_that_do_not_fit_stay_the_c_librarys_and_that_is_reported),
		cmocka_unit_test(rwlocks_and_barriers_that_do_not_fit_stay_the_c_librarys),
		cmocka_unit_test(with_this_c_library_all_fit),
	};

	if (count > 1 && strcmp(arguments[1], "use") == 0) {
		use_objects();
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
