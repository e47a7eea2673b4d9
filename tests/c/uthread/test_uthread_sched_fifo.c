/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* RtFIFO: fixed priorities, on the worker that a thread was dealt to, with each of its locks. */
#include "fake_threads.h"

#include "patience.h"
#include "rounds.h"

#include <stdatomic.h>

#define FIFO (&tek_ut__sched_fifo)

/* As start(), with this lock, and as if several kernel threads were there. */
static void start_with(int lock, unsigned int workers)
{
	tek_ut__engine.lock = lock;
	start(FIFO, workers);
	atomic_store(&tek_ut__parallel_now, true);
	for (unsigned int i = 0; i < THREADS; i++)
		threads[i].sched.assigned = &tek_ut__workers[0];
}

#define FOR_EACH_LOCK(lock) for (int lock = TEK_LOCK_GIANT; lock <= TEK_LOCK_OBJECT; lock++)

static void give_with(unsigned int number, int priority, enum tek_ready why)
{
	threads[number].sched.priority = (signed char)priority;
	give(FIFO, &threads[number], why);
}

static void the_greatest_priority_goes_first_and_equals_in_order(void **state)
{
	(void)state;
	FOR_EACH_LOCK(lock)
	{
		start_with(lock, 1);
		give_with(0, 0, TEK_READY_WOKEN);
		give_with(1, 50, TEK_READY_WOKEN);
		give_with(2, 99, TEK_READY_YIELDED);
		give_with(3, 63, TEK_READY_WOKEN);
		give_with(4, 64, TEK_READY_WOKEN);
		give_with(5, 50, TEK_READY_YIELDED);
		give_with(6, 99, TEK_READY_WOKEN);
		ASSERT_NEXT_ARE(FIFO, 2, 6, 4, 3, 1, 5, 0);
	}
}

static void each_priority_has_its_place(void **state)
{
	(void)state;
	FOR_EACH_LOCK(lock)
	{
		start_with(lock, 1);
		for (unsigned int i = 0; i < 100; i++)
			give_with(i, (int)(i * 37 % 100), TEK_READY_WOKEN);
		for (int priority = 99; priority >= 0; priority--)
			assert_int_equal(take(FIFO)->sched.priority, priority);
		assert_null(take(FIFO));
	}
}

static void a_priority_beyond_the_range_counts_as_the_nearest_one(void **state)
{
	(void)state;
	start_with(TEK_LOCK_OBJECT, 1);
	give_with(0, -128, TEK_READY_WOKEN);
	give_with(1, 0, TEK_READY_WOKEN);
	give_with(2, 99, TEK_READY_WOKEN);
	give_with(3, 127, TEK_READY_WOKEN);
	ASSERT_NEXT_ARE(FIFO, 2, 3, 0, 1);
}

static void a_thread_that_was_preempted_comes_back_first_of_its_priority(void **state)
{
	(void)state;
	FOR_EACH_LOCK(lock)
	{
		start_with(lock, 1);
		give_with(0, 5, TEK_READY_WOKEN);
		give_with(1, 5, TEK_READY_WOKEN);
		give_with(2, 5, TEK_READY_PREEMPTED);
		give_with(3, 5, TEK_READY_WOKEN);
		ASSERT_NEXT_ARE(FIFO, 2, 0, 1, 3);
	}
}

static void threads_are_dealt_to_workers_round_robin_and_stay_there(void **state)
{
	(void)state;
	FOR_EACH_LOCK(lock)
	{
		start_with(lock, 4);
		for (unsigned int i = 0; i < 12; i++) {
			struct tek_worker *assigned = FIFO->ready(&tek_ut__workers[2], &threads[i],
								  TEK_READY_CREATED);
			/* The first thread of the program is on worker 0. */
			assert_ptr_equal(assigned, &tek_ut__workers[(i + 1) % 4]);
		}
		for (unsigned int round = 0; round < 3; round++) {
			for (unsigned int i = 0; i < 12; i++) {
				struct tek_worker *assigned = &tek_ut__workers[(i + 1) % 4];
				assert_ptr_equal(FIFO->next(assigned, NULL, TEK_READY_WOKEN),
						 &threads[i]);
				assert_ptr_equal(FIFO->ready(&tek_ut__workers[round], &threads[i],
							     TEK_READY_WOKEN),
						 assigned);
			}
		}
		for (unsigned int i = 0; i < 3; i++)
			assert_non_null(FIFO->next(&tek_ut__workers[1], NULL, TEK_READY_WOKEN));
		assert_null(FIFO->next(&tek_ut__workers[1], NULL, TEK_READY_WOKEN));
		assert_false(FIFO->any(&tek_ut__workers[1]));
		assert_true(FIFO->any(&tek_ut__workers[2]));
	}
}

static void the_first_thread_of_the_program_is_on_the_first_worker(void **state)
{
	(void)state;
	start_with(TEK_LOCK_WORKER, 3);
	struct tek_uthread first = {.id = 1};
	assert_ptr_equal(FIFO->ready(&tek_ut__workers[2], &first, TEK_READY_WOKEN),
			 &tek_ut__workers[0]);
	assert_ptr_equal(take(FIFO), &first);
}

static void quanta_do_not_count_unless_a_greater_priority_waits(void **state)
{
	(void)state;
	FOR_EACH_LOCK(lock)
	{
		struct tek_worker *worker = &tek_ut__workers[0];
		start_with(lock, 1);
		threads[0].sched.priority = 10;
		give_with(1, 10, TEK_READY_WOKEN);
		give_with(2, 9, TEK_READY_WOKEN);
		for (int i = 0; i < 1000; i++)
			assert_false(FIFO->tick(worker, &threads[0]));
		assert_null(FIFO->next(worker, &threads[0], TEK_READY_PREEMPTED));
		give_with(3, 11, TEK_READY_WOKEN);
		assert_true(FIFO->tick(worker, &threads[0]));
		assert_ptr_equal(FIFO->next(worker, &threads[0], TEK_READY_PREEMPTED), &threads[3]);
	}
}

static void a_yield_lets_equals_run_and_no_other_threads(void **state)
{
	(void)state;
	FOR_EACH_LOCK(lock)
	{
		struct tek_worker *worker = &tek_ut__workers[0];
		start_with(lock, 1);
		threads[0].sched.priority = 10;
		give_with(1, 9, TEK_READY_WOKEN);
		assert_null(FIFO->next(worker, &threads[0], TEK_READY_YIELDED));
		give_with(2, 10, TEK_READY_WOKEN);
		assert_ptr_equal(FIFO->next(worker, &threads[0], TEK_READY_YIELDED), &threads[2]);
		assert_null(FIFO->next(worker, &threads[0], TEK_READY_YIELDED));
	}
}

static void only_a_greater_priority_goes_at_once(void **state)
{
	(void)state;
	FOR_EACH_LOCK(lock)
	{
		start_with(lock, 1);
		give_with(0, 10, TEK_READY_WOKEN);
		struct tek_uthread *running = take(FIFO);
		give_with(1, 11, TEK_READY_WOKEN);
		give_with(2, 10, TEK_READY_WOKEN);
		give_with(3, 9, TEK_READY_WOKEN);
		assert_true(FIFO->goes_before(&threads[1], running));
		assert_false(FIFO->goes_before(&threads[2], running));
		assert_false(FIFO->goes_before(&threads[3], running));
	}
}

static void a_thread_that_is_ready_changes_its_place_with_its_priority(void **state)
{
	(void)state;
	FOR_EACH_LOCK(lock)
	{
		struct tek_worker *worker = &tek_ut__workers[0];
		start_with(lock, 1);
		for (unsigned int i = 0; i < 6; i++)
			give_with(i, i < 3 ? 10 : 20, TEK_READY_WOKEN);
		assert_ptr_equal(FIFO->reprioritise(&threads[1], 20), worker);
		assert_ptr_equal(FIFO->reprioritise(&threads[4], 10), worker);
		assert_ptr_equal(FIFO->reprioritise(&threads[2], 30), worker);
		assert_ptr_equal(FIFO->reprioritise(&threads[2], 15), worker);
		ASSERT_NEXT_ARE(FIFO, 3, 5, 1, 2, 4, 0);
	}
}

static void a_thread_that_runs_or_waits_has_its_new_priority_when_it_is_ready(void **state)
{
	(void)state;
	FOR_EACH_LOCK(lock)
	{
		start_with(lock, 1);
		give_with(0, 10, TEK_READY_WOKEN);
		give_with(1, 20, TEK_READY_WOKEN);
		struct tek_uthread *running = take(FIFO);
		assert_ptr_equal(running, &threads[1]);
		assert_null(FIFO->reprioritise(running, 15));
		/* Now the other thread precedes it: its worker has to check. */
		assert_ptr_equal(FIFO->reprioritise(running, 5), &tek_ut__workers[0]);
		give(FIFO, running, TEK_READY_PREEMPTED);
		ASSERT_NEXT_ARE(FIFO, 0, 1);
		struct tek_uthread unknown = {.id = 7};
		assert_null(FIFO->reprioritise(&unknown, 5));
		assert_int_equal(unknown.sched.priority, 5);
	}
}

/*
 * A worker whose thread of priority 90 has just waited takes the next one, of priority 10.  Another
 * worker makes a thread of 50 ready meanwhile.  In either order that thread is taken, or known to
 * precede.
 */
static struct {
	atomic_uint round, answered;
	struct tek_uthread *given;
	unsigned int last;
} race;

static void wait_for(atomic_uint *word, unsigned int round)
{
	for (unsigned int i = 0; atomic_load_explicit(word, memory_order_acquire) < round; i++) {
		if (i < 1000)
			tek_ut__relax();
		else
			sched_yield();
	}
}

static void *race_main(void *argument)
{
	(void)argument;
	for (unsigned int round = 1; round <= race.last; round++) {
		wait_for(&race.round, round);
		race.given = take(FIFO);
		atomic_store_explicit(&race.answered, round, memory_order_release);
	}
	return NULL;
}

/* As tek_ut__ready() has it. */
static void barrier(void)
{
#ifdef __SANITIZE_THREAD__ /* which does not know fences */
	static atomic_uint word;
	atomic_fetch_add(&word, 1);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

static void a_greater_priority_is_never_overlooked_by_a_worker_in_a_switch(void **state)
{
	(void)state;
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		print_message("# needs two CPUs\n");
		skip();
	}
	FOR_EACH_LOCK(lock)
	{
		pthread_t worker;
		start_with(lock, 1);
		memset(&race, 0, sizeof(race));
		race.last = (unsigned int)rounds(20000);
		threads[2].sched.priority = 90;
		assert_int_equal(pthread_create(&worker, NULL, race_main, NULL), 0);
		for (unsigned int round = 1; round <= race.last; round++) {
			give_with(0, 10, TEK_READY_WOKEN);
			threads[1].sched.priority = 50;
			atomic_store_explicit(&race.round, round, memory_order_release);
			for (unsigned int i = round % 64; i > 0; i--)
				tek_ut__relax();
			FIFO->ready(NULL, &threads[1], TEK_READY_WOKEN);
			barrier();
			bool goes = FIFO->goes_before(&threads[1], &threads[2]);
			wait_for(&race.answered, round);
			if (race.given != &threads[1]) {
				assert_ptr_equal(race.given, &threads[0]);
				assert_true(goes);
			}
			assert_non_null(take(FIFO));
			assert_null(take(FIFO));
		}
		pthread_join(worker, NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_greatest_priority_goes_first_and_equals_in_order),
		cmocka_unit_test(each_priority_has_its_place),
		cmocka_unit_test(a_priority_beyond_the_range_counts_as_the_nearest_one),
		cmocka_unit_test(a_thread_that_was_preempted_comes_back_first_of_its_priority),
		cmocka_unit_test(threads_are_dealt_to_workers_round_robin_and_stay_there),
		cmocka_unit_test(the_first_thread_of_the_program_is_on_the_first_worker),
		cmocka_unit_test(quanta_do_not_count_unless_a_greater_priority_waits),
		cmocka_unit_test(a_yield_lets_equals_run_and_no_other_threads),
		cmocka_unit_test(only_a_greater_priority_goes_at_once),
		cmocka_unit_test(a_thread_that_is_ready_changes_its_place_with_its_priority),
		cmocka_unit_test(a_thread_that_runs_or_waits_has_its_new_priority_when_it_is_ready),
		cmocka_unit_test(a_greater_priority_is_never_overlooked_by_a_worker_in_a_switch),
	};
	limit_to(100);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
