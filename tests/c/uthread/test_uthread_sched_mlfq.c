/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The multi-level feedback queue: levels, allotments, and no starvation. */
#include "fake_threads.h"
#include "patience.h"

#define MLFQ (&tek_ut__sched_mlfq)
#define LOWEST 3u

/* Runs until it has used up what it may; returns how many quanta that were. */
static unsigned int run_out(struct tek_uthread *thread)
{
	unsigned int quanta = 1;
	while (!MLFQ->tick(&tek_ut__workers[0], thread))
		quanta++;
	return quanta;
}

/* This thread has come down to that level, and runs. */
static void sink(unsigned int number, unsigned int level)
{
	give(MLFQ, &threads[number], TEK_READY_CREATED);
	assert_int_equal(number_of(take(MLFQ)), number);
	for (unsigned int i = 0; i < level; i++)
		run_out(&threads[number]);
	assert_int_equal(threads[number].sched.level, level);
}

/* The same, and it is ready. */
static void sink_ready(unsigned int number, unsigned int level)
{
	sink(number, level);
	give(MLFQ, &threads[number], TEK_READY_PREEMPTED);
}

/* A quantum is a 10,000th of what it was, so as many times more of them have passed. */
static void let_quanta_pass(void)
{
	tek_ut__engine.quantum_ns /= 10000;
	tek_ut__engine.promote_quanta = 1000;
	tek_ut__workers[0].ticks++;
}

static void a_thread_goes_down_with_each_allotment_and_gets_a_longer_one(void **state)
{
	(void)state;
	start(MLFQ, 1);
	create(MLFQ, 0, 0);
	struct tek_uthread *thread = take(MLFQ);
	for (unsigned int level = 0; level < LOWEST; level++) {
		assert_int_equal(thread->sched.level, level);
		assert_int_equal(run_out(thread), level + 1);
	}
	assert_int_equal(thread->sched.level, LOWEST);
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(run_out(thread), LOWEST + 1);
		assert_int_equal(thread->sched.level, LOWEST);
	}
	assert_int_equal(thread->sched.quanta, 1 + 2 + 3 + 3 * 4);
}

static void
a_thread_that_waits_before_its_allotment_is_used_up_stays_and_gets_all_of_it_again(void **state)
{
	(void)state;
	start(MLFQ, 1);
	sink(0, 2);
	for (unsigned int i = 0; i < 10; i++) {
		assert_false(MLFQ->tick(&tek_ut__workers[0], &threads[0]));
		assert_false(MLFQ->tick(&tek_ut__workers[0], &threads[0]));
		give(MLFQ, &threads[0], i % 2 ? TEK_READY_WOKEN : TEK_READY_YIELDED);
		ASSERT_NEXT_ARE(MLFQ, 0);
		assert_int_equal(threads[0].sched.level, 2);
	}
	assert_int_equal(run_out(&threads[0]), 3);
}

static void a_thread_that_is_interrupted_goes_on_with_what_is_left_of_its_allotment(void **state)
{
	(void)state;
	start(MLFQ, 1);
	sink(0, 2);
	assert_false(MLFQ->tick(&tek_ut__workers[0], &threads[0]));
	give(MLFQ, &threads[0], TEK_READY_PREEMPTED);
	ASSERT_NEXT_ARE(MLFQ, 0);
	assert_int_equal(run_out(&threads[0]), 2);
	assert_int_equal(threads[0].sched.level, LOWEST);
}

static void lower_levels_wait_for_higher_ones_and_equals_run_round_robin(void **state)
{
	(void)state;
	start(MLFQ, 1);
	sink(6, 3);
	sink(4, 2);
	sink(5, 2);
	sink(2, 1);
	sink(3, 1);
	for (unsigned int i = 6; i >= 2; i--)
		give(MLFQ, &threads[i], TEK_READY_WOKEN);
	create(MLFQ, 0, 1);
	ASSERT_NEXT_ARE(MLFQ, 0, 1, 3, 2, 5, 4, 6);
}

static void a_woken_thread_goes_at_once_before_one_of_a_lower_level(void **state)
{
	(void)state;
	start(MLFQ, 1);
	sink(0, 2);
	sink(1, 1);
	sink(2, 1);
	assert_true(MLFQ->goes_before(&threads[1], &threads[0]));
	assert_false(MLFQ->goes_before(&threads[0], &threads[1]));
	assert_false(MLFQ->goes_before(&threads[1], &threads[2]));
}

static void
a_thread_that_has_used_up_its_allotment_goes_on_if_only_lower_levels_are_ready(void **state)
{
	(void)state;
	struct tek_worker *worker = &tek_ut__workers[0];
	start(MLFQ, 1);
	sink_ready(0, 3);
	sink_ready(1, 2);
	sink(2, 1);
	assert_null(MLFQ->next(worker, &threads[2], TEK_READY_PREEMPTED));
	run_out(&threads[2]);
	assert_ptr_equal(MLFQ->next(worker, &threads[2], TEK_READY_PREEMPTED), &threads[1]);
	assert_null(MLFQ->next(worker, &threads[2], TEK_READY_PREEMPTED));
	assert_ptr_equal(MLFQ->next(worker, &threads[2], TEK_READY_YIELDED), &threads[0]);
}

static void the_lowest_level_stays_there_until_its_time_has_come(void **state)
{
	(void)state;
	start(MLFQ, 1);
	sink(0, 3);
	for (int i = 0; i < 100; i++) {
		tek_ut__workers[0].ticks++;
		give(MLFQ, &threads[0], i % 2 ? TEK_READY_WOKEN : TEK_READY_PREEMPTED);
		ASSERT_NEXT_ARE(MLFQ, 0);
		assert_int_equal(threads[0].sched.level, LOWEST);
	}
}

static void a_thread_that_was_at_the_lowest_level_for_long_goes_to_the_top(void **state)
{
	(void)state;
	start(MLFQ, 1);
	for (unsigned int i = 0; i < 3; i++)
		sink(i, 3);
	sink(3, 1);
	give(MLFQ, &threads[0], TEK_READY_PREEMPTED);
	let_quanta_pass();
	/* One was ready, one waited, one ran, and one just became ready at a level between. */
	threads[3].sched.level_since = UINT64_MAX;
	give(MLFQ, &threads[3], TEK_READY_PREEMPTED);
	assert_ptr_equal(take(MLFQ), &threads[0]);
	give(MLFQ, &threads[1], TEK_READY_WOKEN);
	give(MLFQ, &threads[2], TEK_READY_PREEMPTED);
	ASSERT_NEXT_ARE(MLFQ, 1, 2, 3);
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(run_out(&threads[i]), 1);
		assert_int_equal(threads[i].sched.level, 1);
	}
}

/* Level 0 is never empty: a thread ready below runs 300 turns after its time at the latest. */
static void nobody_waits_for_ever_at_any_level(void **state)
{
	(void)state;
	for (unsigned int level = 1; level <= LOWEST; level++) {
		start(MLFQ, 1);
		for (unsigned int i = 0; i < 100; i++)
			sink_ready(i, level);
		create(MLFQ, 100, 101);
		for (unsigned int iteration = 0; iteration < 100; iteration++) {
			struct tek_uthread *thread = take(MLFQ);
			assert_true(number_of(thread) >= 100);
			give(MLFQ, thread, TEK_READY_WOKEN);
		}
		let_quanta_pass();
		unsigned int came = 0;
		for (unsigned int iteration = 0; iteration < 300; iteration++) {
			struct tek_uthread *thread = take(MLFQ);
			if (number_of(thread) < 100)
				came++;
			else
				give(MLFQ, thread, TEK_READY_WOKEN);
		}
		assert_int_equal(came, 100);
	}
}

static void a_thread_that_has_not_used_up_its_allotment_for_long_goes_to_the_top(void **state)
{
	(void)state;
	start(MLFQ, 1);
	for (unsigned int level = 1; level < LOWEST; level++)
		sink(level, level);
	let_quanta_pass();
	sink_ready(0, 1);
	assert_non_null(take(MLFQ)); /* sees the time */
	for (unsigned int level = 1; level < LOWEST; level++) {
		give(MLFQ, &threads[level], TEK_READY_WOKEN);
		assert_int_equal(threads[level].sched.level, 0);
		ASSERT_NEXT_ARE(MLFQ, (int)level);
	}
	assert_int_equal(threads[0].sched.level, 1);
}

static void a_thread_that_wakes_waits_for_one_of_those_that_were_promoted_at_most(void **state)
{
	(void)state;
	start(MLFQ, 1);
	for (unsigned int i = 0; i < 50; i++)
		sink_ready(i, 3);
	let_quanta_pass();
	for (unsigned int i = 0; i < 50; i++) {
		assert_int_equal(number_of(take(MLFQ)), i);
		give(MLFQ, &threads[50], i ? TEK_READY_WOKEN : TEK_READY_CREATED);
		assert_int_equal(number_of(take(MLFQ)), 50);
	}
	assert_null(take(MLFQ));
}

static void a_thread_that_wakes_goes_at_once_before_one_that_was_promoted(void **state)
{
	(void)state;
	struct tek_worker *worker = &tek_ut__workers[0];
	start(MLFQ, 1);
	sink_ready(0, 3);
	sink_ready(1, 3);
	let_quanta_pass();
	struct tek_uthread *promoted = take(MLFQ);
	assert_ptr_equal(promoted, &threads[0]);
	create(MLFQ, 2, 2);
	assert_true(MLFQ->goes_before(&threads[2], promoted));
	assert_false(MLFQ->goes_before(promoted, &threads[2]));
	assert_ptr_equal(MLFQ->next(worker, promoted, TEK_READY_PREEMPTED), &threads[2]);
	give(MLFQ, promoted, TEK_READY_PREEMPTED);
	/* It has not run, so it is promoted still, after the other one. */
	ASSERT_NEXT_ARE(MLFQ, 1, 0);
	give(MLFQ, promoted, TEK_READY_WOKEN);
	assert_int_equal(promoted->sched.level, 0);
	ASSERT_NEXT_ARE(MLFQ, 0);
}

static void two_that_yield_let_a_lower_level_run(void **state)
{
	(void)state;
	start(MLFQ, 1);
	sink_ready(0, 3);
	sink_ready(1, 3);
	give(MLFQ, &threads[2], TEK_READY_YIELDED);
	give(MLFQ, &threads[3], TEK_READY_YIELDED);
	unsigned int iterations[4] = {0};
	for (unsigned int i = 0; i < 100; i++) {
		struct tek_uthread *thread = take(MLFQ);
		assert_in_range(number_of(thread), 0,
				sizeof(iterations) / sizeof(iterations[0]) - 1);
		iterations[thread - threads]++;
		give(MLFQ, thread, number_of(thread) < 2 ? TEK_READY_PREEMPTED : TEK_READY_YIELDED);
	}
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(iterations[i], 25);
	assert_int_equal(threads[2].sched.level, 0);
}

static void two_that_yield_let_a_lower_level_run_also_when_they_were_promoted(void **state)
{
	(void)state;
	start(MLFQ, 1);
	sink_ready(2, 3);
	sink_ready(3, 3);
	let_quanta_pass();
	assert_int_equal(number_of(take(MLFQ)), 2);
	assert_int_equal(number_of(take(MLFQ)), 3);
	tek_ut__engine.promote_quanta = NEVER;
	sink_ready(0, 3);
	for (unsigned int i = 2; i < 4; i++)
		give(MLFQ, &threads[i], TEK_READY_YIELDED);
	unsigned int iterations[4] = {0};
	for (unsigned int i = 0; i < 100; i++) {
		struct tek_uthread *thread = take(MLFQ);
		assert_in_range(number_of(thread), 0,
				sizeof(iterations) / sizeof(iterations[0]) - 1);
		iterations[thread - threads]++;
		give(MLFQ, thread, thread == threads ? TEK_READY_PREEMPTED : TEK_READY_YIELDED);
	}
	assert_int_equal(iterations[0], 50);
}

static void a_thread_that_yields_runs_beside_those_that_wake_each_other(void **state)
{
	(void)state;
	start(MLFQ, 1);
	create(MLFQ, 0, 1);
	give(MLFQ, &threads[2], TEK_READY_YIELDED);
	unsigned int iterations[3] = {0};
	for (unsigned int i = 0; i < 100; i++) {
		struct tek_uthread *thread = take(MLFQ);
		assert_in_range(number_of(thread), 0,
				sizeof(iterations) / sizeof(iterations[0]) - 1);
		iterations[thread - threads]++;
		give(MLFQ, thread, number_of(thread) == 2 ? TEK_READY_YIELDED : TEK_READY_WOKEN);
	}
	assert_int_equal(iterations[2], 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_goes_down_with_each_allotment_and_gets_a_longer_one),
		cmocka_unit_test(
			a_thread_that_waits_before_its_allotment_is_used_up_stays_and_gets_all_of_it_again),
		cmocka_unit_test(
			a_thread_that_is_interrupted_goes_on_with_what_is_left_of_its_allotment),
		cmocka_unit_test(lower_levels_wait_for_higher_ones_and_equals_run_round_robin),
		cmocka_unit_test(a_woken_thread_goes_at_once_before_one_of_a_lower_level),
		cmocka_unit_test(
			a_thread_that_has_used_up_its_allotment_goes_on_if_only_lower_levels_are_ready),
		cmocka_unit_test(the_lowest_level_stays_there_until_its_time_has_come),
		cmocka_unit_test(a_thread_that_was_at_the_lowest_level_for_long_goes_to_the_top),
		cmocka_unit_test(nobody_waits_for_ever_at_any_level),
		cmocka_unit_test(
			a_thread_that_has_not_used_up_its_allotment_for_long_goes_to_the_top),
		cmocka_unit_test(
			a_thread_that_wakes_waits_for_one_of_those_that_were_promoted_at_most),
		cmocka_unit_test(a_thread_that_wakes_goes_at_once_before_one_that_was_promoted),
		cmocka_unit_test(two_that_yield_let_a_lower_level_run),
		cmocka_unit_test(two_that_yield_let_a_lower_level_run_also_when_they_were_promoted),
		cmocka_unit_test(a_thread_that_yields_runs_beside_those_that_wake_each_other),
	};
	limit_to(100);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
