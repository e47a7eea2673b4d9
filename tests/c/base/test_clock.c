/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "support.h"

#include "base/clock.h"

#define MS UINT64_C(1000000)

static void work_that_takes_longer_than_its_period_rests(void **state)
{
	const uint64_t cpu = tek__now(CLOCK_THREAD_CPUTIME_ID), now = tek__now(CLOCK_MONOTONIC);

	(void)state;
	while (tek__now(CLOCK_THREAD_CPUTIME_ID) - cpu < MS)
		;
	assert_true(tek__due_after_rest(cpu, now) >= now + 8 * MS);
}

static void a_pause_is_no_work(void **state)
{
	const uint64_t cpu = tek__now(CLOCK_THREAD_CPUTIME_ID);

	(void)state;
	/* Eight times the pause is far more than this, eight times its CPU time far less. */
	sleep_ms(200);
	const uint64_t due = tek__now(CLOCK_MONOTONIC) + 400 * MS;
	assert_true(tek__due_after_rest(cpu, due) == due);
}

static void work_that_is_soon_done_keeps_its_period(void **state)
{
	const uint64_t cpu = tek__now(CLOCK_THREAD_CPUTIME_ID);
	const uint64_t in_an_hour = tek__now(CLOCK_MONOTONIC) + 3600000 * MS;

	(void)state;
	assert_true(tek__due_after_rest(cpu, in_an_hour) == in_an_hour);
	assert_true(tek__due_after_rest(cpu, UINT64_MAX) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(work_that_takes_longer_than_its_period_rests),
		cmocka_unit_test(a_pause_is_no_work),
		cmocka_unit_test(work_that_is_soon_done_keeps_its_period),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
