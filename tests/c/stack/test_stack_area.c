/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where stacks lie. */
#include "stack_support.h"

#include "threads/area.h"

enum { KIB = 1024, MIB = 1024 * KIB };

/* Of each size and kind of stack the C library's answer and ours. */
static void *compare_areas(void *argument)
{
	bool *same = argument;
	struct tek_area ours, asked;

	*same = tek__area_ask(&asked) && tek__area_of_self(&ours) && ours.low == asked.low &&
		ours.end == asked.end && tek__area_of(pthread_self(), &ours) &&
		ours.low == asked.low && ours.end == asked.end;
	return NULL;
}

static void stacks_lie_where_the_c_library_reports_them(void **state)
{
	(void)state;
	pthread_attr_t attr;
	pthread_t thread;
	bool same;

	run_some_threads();
	for (size_t bytes = 64 * KIB; bytes < 20 * MIB; bytes = bytes * 2 + 4096) {
		pthread_attr_init(&attr);
		pthread_attr_setstacksize(&attr, bytes);
		pthread_attr_setguardsize(&attr, bytes % (16 * KIB));
		assert_int_equal(pthread_create(&thread, &attr, compare_areas, &same), 0);
		pthread_join(thread, NULL);
		assert_true(same);
		pthread_attr_destroy(&attr);
	}
	struct tek_area main_area;
	assert_true(tek__area_of_self(&main_area));
	assert_int_equal(main_area.end, first_stack_end());
}

int main(int count, char **arguments)
{
	(void)count;
	measure_in(arguments, "report,period=0");
	if (cannot_measure())
		return 0;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_lie_where_the_c_library_reports_them),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
