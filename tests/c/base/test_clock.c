/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "support.h"

#include "base/clock.h"

#define MS UINT64_C(1000000)

static void work_that_takes_longer_than_its_period_rests(void **state)
{
	const uint64_t now = tek__now(CLOCK_MONOTONIC);

	(void)state;
	assert_true(tek__due_after_rest(now - MS, now) >= now + 8 * MS);
}

static void work_that_is_soon_done_keeps_its_period(void **state)
{
	const uint64_t now = tek__now(CLOCK_MONOTONIC), in_an_hour = now + 3600000 * MS;

	(void)state;
	assert_true(tek__due_after_rest(now, in_an_hour) == in_an_hour);
	assert_true(tek__due_after_rest(now, UINT64_MAX) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(work_that_takes_longer_than_its_period_rests),
		cmocka_unit_test(work_that_is_soon_done_keeps_its_period),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
