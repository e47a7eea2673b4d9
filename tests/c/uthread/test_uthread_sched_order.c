/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The order of threads: round robin, shortest job first, work stealing. */
#include "fake_threads.h"
#include "patience.h"

#define RR (&tek_ut__sched_rr)
#define PSJF (&tek_ut__sched_psjf)
#define STEAL (&tek_ut__sched_steal)

static void give_with_quanta(unsigned int number, uint64_t quanta)
{
	threads[number].sched.quanta = quanta;
	give(PSJF, &threads[number], TEK_READY_WOKEN);
}

static void rr_lets_run_in_the_order_of_becoming_ready(void **state)
{
	(void)state;
	start(RR, 2);
	create(RR, 0, 2);
	give(RR, &threads[3], TEK_READY_WOKEN);
	RR->ready(&tek_ut__workers[1], &threads[4], TEK_READY_YIELDED);
	RR->ready(NULL, &threads[5], TEK_READY_PREEMPTED);
	assert_ptr_equal(RR->next(&tek_ut__workers[1], NULL, TEK_READY_WOKEN), &threads[0]);
	ASSERT_NEXT_ARE(RR, 1, 2, 3, 4, 5);
}

static void rr_gives_one_quantum_to_each_in_order(void **state)
{
	(void)state;
	start(RR, 1);
	create(RR, 1, 9);
	struct tek_uthread *running = &threads[0];
	for (int i = 0; i < 1000; i++) {
		assert_true(RR->tick(&tek_ut__workers[0], running));
		struct tek_uthread *next = RR->next(&tek_ut__workers[0], running,
						    TEK_READY_PREEMPTED);
		give(RR, running, TEK_READY_PREEMPTED);
		assert_int_equal(number_of(next), (number_of(running) + 1) % 10);
		running = next;
	}
	for (unsigned int i = 0; i < 10; i++)
		assert_int_equal(threads[i].sched.quanta, 100);
	assert_null(RR->goes_before);
}

static void psjf_prefers_the_fewest_quanta_and_then_the_longest_wait(void **state)
{
	(void)state;
	start(PSJF, 1);
	give_with_quanta(0, 7);
	give_with_quanta(1, 3);
	give_with_quanta(2, 3);
	give_with_quanta(3, 0);
	give_with_quanta(4, 7);
	give_with_quanta(5, 3);
	ASSERT_NEXT_ARE(PSJF, 3, 1, 2, 5, 0, 4);
}

static void psjf_orders_any_number(void **state)
{
	(void)state;
	start(PSJF, 1);
	for (unsigned int i = 0; i < THREADS; i++)
		give_with_quanta(i, next_random() % 50);
	struct tek_uthread *before = take(PSJF);
	for (unsigned int i = 1; i < THREADS; i++) {
		struct tek_uthread *thread = take(PSJF);
		assert_true(before->sched.quanta < thread->sched.quanta ||
			    (before->sched.quanta == thread->sched.quanta && before < thread));
		before = thread;
	}
	assert_null(take(PSJF));
}

static void psjf_counts_only_quanta_that_were_used_up(void **state)
{
	(void)state;
	start(PSJF, 1);
	create(PSJF, 0, 0);
	for (int i = 0; i < 10; i++) {
		struct tek_uthread *thread = take(PSJF);
		if (i < 3)
			assert_true(PSJF->tick(&tek_ut__workers[0], thread));
		give(PSJF, thread, i < 3 ? TEK_READY_PREEMPTED : TEK_READY_WOKEN);
	}
	assert_int_equal(threads[0].sched.quanta, 3);
}

static void psjf_lets_one_with_fewer_quanta_run_at_once(void **state)
{
	(void)state;
	start(PSJF, 1);
	threads[0].sched.quanta = 2;
	threads[1].sched.quanta = 3;
	threads[2].sched.quanta = 3;
	assert_true(PSJF->goes_before(&threads[0], &threads[1]));
	assert_false(PSJF->goes_before(&threads[1], &threads[0]));
	assert_false(PSJF->goes_before(&threads[1], &threads[2]));
}

static void psjf_lets_the_one_with_the_fewest_go_on_unless_it_yields(void **state)
{
	(void)state;
	struct tek_worker *worker = &tek_ut__workers[0];
	start(PSJF, 1);
	threads[0].sched.quanta = 3;
	give_with_quanta(1, 4);
	assert_null(PSJF->next(worker, &threads[0], TEK_READY_PREEMPTED));
	PSJF->tick(worker, &threads[0]);
	/* With as many the other one has waited for longer. */
	assert_ptr_equal(PSJF->next(worker, &threads[0], TEK_READY_PREEMPTED), &threads[1]);
	give_with_quanta(1, 9);
	assert_ptr_equal(PSJF->next(worker, &threads[0], TEK_READY_YIELDED), &threads[1]);
}

static void steal_takes_the_newest_of_its_own_and_those_that_yielded_in_order(void **state)
{
	(void)state;
	start(STEAL, 1);
	give(STEAL, &threads[0], TEK_READY_YIELDED);
	give(STEAL, &threads[1], TEK_READY_CREATED);
	give(STEAL, &threads[2], TEK_READY_PREEMPTED);
	give(STEAL, &threads[3], TEK_READY_WOKEN);
	STEAL->ready(NULL, &threads[4], TEK_READY_WOKEN);
	ASSERT_NEXT_ARE(STEAL, 3, 1, 0, 2, 4);
}

static void steal_lets_the_oldest_go_first_once_in_a_quantum(void **state)
{
	(void)state;
	start(STEAL, 1);
	create(STEAL, 0, 9);
	give(STEAL, &threads[10], TEK_READY_YIELDED);
	give(STEAL, &threads[11], TEK_READY_YIELDED);
	assert_int_equal(number_of(take(STEAL)), 9);
	for (int oldest = 0; oldest < 2; oldest++) {
		const int iterations = 10 + oldest;
		const int two[] = {oldest, iterations};
		for (int i = 0; i < 2; i++) {
			tek_ut__workers[0].ticks++;
			int number = number_of(take(STEAL));
			assert_true(number == two[0] || number == two[1]);
		}
		assert_int_equal(number_of(take(STEAL)), 8 - oldest);
	}
	ASSERT_NEXT_ARE(STEAL, 6, 5, 4, 3, 2);
}

static void steal_lets_every_thread_run_beside_two_that_wake_each_other(void **state)
{
	(void)state;
	start(STEAL, 1);
	create(STEAL, 0, 99);
	for (unsigned int i = 100; i < 200; i++)
		give(STEAL, &threads[i], TEK_READY_YIELDED);
	unsigned int came = 0, iterations = 0;
	struct tek_uthread *thread = &threads[200];
	while (came < 200) {
		if (thread >= &threads[200])
			give(STEAL, thread == &threads[200] ? &threads[201] : &threads[200],
			     TEK_READY_WOKEN);
		else
			came++;
		thread = take(STEAL);
		assert_non_null(thread);
		assert_true(++iterations < 200 * 65);
	}
}

static void a_thief_gets_the_older_half_in_its_order(void **state)
{
	(void)state;
	struct tek_worker *thief = &tek_ut__workers[1];
	start(STEAL, 2);
	create(STEAL, 0, 5);
	give(STEAL, &threads[6], TEK_READY_YIELDED);
	give(STEAL, &threads[7], TEK_READY_YIELDED);
	/* The oldest runs; of the remaining ones the newest goes first there, too. */
	static const int stolen[] = {0, 3, 2, 1};
	for (int i = 0; i < 4; i++) {
		assert_true(STEAL->any(thief));
		assert_int_equal(number_of(STEAL->next(thief, NULL, TEK_READY_WOKEN)), stolen[i]);
	}
	assert_int_equal(number_of(take(STEAL)), 5);
	/* Two of three now, the yielded threads among them. */
	assert_int_equal(number_of(STEAL->next(thief, NULL, TEK_READY_WOKEN)), 4);
	assert_int_equal(number_of(STEAL->next(thief, NULL, TEK_READY_WOKEN)), 6);
	ASSERT_NEXT_ARE(STEAL, 7);
	assert_null(STEAL->next(thief, NULL, TEK_READY_WOKEN));
	assert_false(STEAL->any(thief));
}

static void thieves_divide_any_number_among_all_workers(void **state)
{
	(void)state;
	const unsigned int workers = 16;
	unsigned int got[16] = {0};
	start(STEAL, workers);
	create(STEAL, 0, THREADS - 1);
	for (unsigned int i = 0; i < THREADS; i++) {
		struct tek_worker *worker = &tek_ut__workers[i % workers];
		assert_non_null(STEAL->next(worker, NULL, TEK_READY_WOKEN));
		got[worker->number]++;
	}
	for (unsigned int i = 0; i < workers; i++)
		assert_true(got[i] >= THREADS / workers);
	assert_null(take(STEAL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rr_lets_run_in_the_order_of_becoming_ready),
		cmocka_unit_test(rr_gives_one_quantum_to_each_in_order),
		cmocka_unit_test(psjf_prefers_the_fewest_quanta_and_then_the_longest_wait),
		cmocka_unit_test(psjf_orders_any_number),
		cmocka_unit_test(psjf_counts_only_quanta_that_were_used_up),
		cmocka_unit_test(psjf_lets_one_with_fewer_quanta_run_at_once),
		cmocka_unit_test(psjf_lets_the_one_with_the_fewest_go_on_unless_it_yields),
		cmocka_unit_test(steal_takes_the_newest_of_its_own_and_those_that_yielded_in_order),
		cmocka_unit_test(steal_lets_the_oldest_go_first_once_in_a_quantum),
		cmocka_unit_test(steal_lets_every_thread_run_beside_two_that_wake_each_other),
		cmocka_unit_test(a_thief_gets_the_older_half_in_its_order),
		cmocka_unit_test(thieves_divide_any_number_among_all_workers),
	};
	limit_to(100);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
