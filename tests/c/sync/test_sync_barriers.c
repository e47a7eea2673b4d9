/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every kind of barrier of lib/sync, by the same tests. */
#include "sync_crowd.h"
#include "watchdog.h"

#include "sync/barrier_round.h"

#include <errno.h>

enum { ROUNDS_MOST = 300 };

static const struct tek_barrier_kind *kind;
static struct tek_sync_barrier barrier;
static unsigned int threads;
static atomic_uint arrived[ROUNDS_MOST], serial;
/*
 * Each thread writes before a round.  Even and odd rounds have words of their own: the next round's
 * are written while these are read.
 */
static unsigned int written[2][CROWD_MOST];

/*
 * A spinning thread keeps the CPU from the threads that have not arrived, for as long as the kernel
 * lets it.  So there are few rounds, and fewer if time is up.  The last thread to arrive sets the
 * end, and all threads have read it after the next round.
 */
static atomic_uint most;
static struct timespec deadline;

static unsigned int rounds_for(unsigned int count)
{
	if (kind->sleeps || on_user_level())
		return count <= 2 ? ROUNDS_MOST : 50;
	return count <= 2 ? 50 : count <= 8 ? 5 : 1;
}

static bool time_is_up(void)
{
	const struct timespec now = in_ms(CLOCK_MONOTONIC, 0);
	return now.tv_sec > deadline.tv_sec ||
	       (now.tv_sec == deadline.tv_sec && now.tv_nsec > deadline.tv_nsec);
}

static void *meet(void *argument)
{
	const uintptr_t me = (uintptr_t)argument;

	for (unsigned int i = 0; i < atomic_load(&most); i++) {
		atomic_fetch_add(&arrived[i], 1);
		written[i % 2][me] = i;
		if (kind->wait(&barrier)) {
			atomic_fetch_add(&serial, 1);
			if (time_is_up() && i + 2 < atomic_load(&most))
				atomic_store(&most, i + 2);
		}
		expect(atomic_load(&arrived[i]) == threads);
		expect(i + 1 == ROUNDS_MOST || atomic_load(&arrived[i + 1]) < threads);
		for (unsigned int other = 0; other < threads; other++)
			expect(written[i % 2][other] == i);
	}
	return NULL;
}

static void meet_with(unsigned int count)
{
	threads = count;
	atomic_store(&most, rounds_for(count));
	deadline = in_ms(CLOCK_MONOTONIC, 1000);
	memset(arrived, 0, sizeof(arrived));
	atomic_store(&serial, 0);
	assert_int_equal(kind->init(&barrier, count), 0);
	run_crowd(count, meet);
	assert_int_equal(atomic_load(&wrong), 0);
	assert_int_equal(atomic_load(&serial), atomic_load(&most));
	assert_int_equal(kind->destroy(&barrier), 0);
}

static void nobody_passes_before_all_are_there(void **state)
{
	static const unsigned int counts[] = {1, 2, 3, 8, CROWD_MOST};

	kind = *state;
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		meet_with(counts[i]);
}

static void signals_interrupt_nobody(void **state)
{
	kind = *state;
	begin_signals();
	meet_with(2);
	meet_with(5);
	end_signals();
}

/* ---- its life ---- */

enum { FREED = 60 };

static struct tek_sync_barrier *freed[FREED];
static int freed_count;

/* The serial thread frees the barrier at once, while the other threads are leaving it. */
static void *meet_and_free(void *argument)
{
	(void)argument;
	for (int i = 0; i < freed_count; i++)
		if (kind->wait(freed[i])) {
			expect(kind->destroy(freed[i]) == 0);
			memset(freed[i], 0xff, sizeof(*freed[i]));
			free(freed[i]);
		}
	return NULL;
}

/* New barriers reuse the places of destroyed ones; no thread may confuse their rounds. */
static void *meet_and_renew(void *argument)
{
	(void)argument;
	for (int i = 0; i < freed_count; i++)
		if (kind->wait(freed[i]) && i + 3 < freed_count) {
			expect(kind->destroy(freed[i]) == 0);
			expect(kind->init(freed[i + 3], 3) == 0);
		}
	return NULL;
}

static void one_that_comes_out_may_free_it(void **state)
{
	kind = *state;
	freed_count = kind->sleeps ? FREED : 20;
	for (int i = 0; i < freed_count; i++) {
		freed[i] = malloc(sizeof(*freed[i]));
		assert_int_equal(kind->init(freed[i], 2), 0);
	}
	run_crowd(2, meet_and_free);
	assert_int_equal(atomic_load(&wrong), 0);
}

static void a_new_one_is_none_of_the_old_ones(void **state)
{
	static struct tek_sync_barrier room[FREED];

	kind = *state;
	freed_count = kind->sleeps ? FREED : 6;
	for (int i = 0; i < freed_count; i++)
		freed[i] = &room[i];
	for (int i = 0; i < 3; i++)
		assert_int_equal(kind->init(freed[i], 3), 0);
	run_crowd(3, meet_and_renew);
	assert_int_equal(atomic_load(&wrong), 0);
	for (int i = freed_count - 3; i < freed_count; i++)
		assert_int_equal(kind->destroy(freed[i]), 0);
}

static void *meet_once(void *argument)
{
	(void)argument;
	kind->wait(&barrier);
	return NULL;
}

/* By what all kinds but `mutex` have there first. */
static bool somebody_waits(void)
{
	return (uint32_t)atomic_load((_Atomic uint64_t *)barrier.place) != 0;
}

static void one_at_which_some_wait_is_not_destroyed(void **state)
{
	kind = *state;
	assert_int_equal(kind->init(&barrier, 2), 0);
	pthread_t other = start(meet_once, NULL);
	while (!somebody_waits())
		sched_yield();
	assert_int_equal(kind->destroy(&barrier), EBUSY);
	kind->wait(&barrier);
	result_of(other);
	assert_int_equal(kind->destroy(&barrier), 0);
}

/* ---- more threads than make a round ---- */

static atomic_int arrivals;

static void *meet_anybody(void *argument)
{
	(void)argument;
	while (atomic_fetch_sub(&arrivals, 1) > 0)
		if (kind->wait(&barrier))
			atomic_fetch_add(&serial, 1);
	return NULL;
}

static void more_threads_than_make_a_round_may_use_it(void **state)
{
	kind = *state;
	const unsigned int rounds = rounds_for(5);
	atomic_store(&serial, 0);
	atomic_store(&arrivals, (int)rounds * 2);
	assert_int_equal(kind->init(&barrier, 2), 0);
	run_crowd(5, meet_anybody);
	assert_int_equal(atomic_load(&serial), rounds);
	assert_int_equal(kind->destroy(&barrier), 0);
}

static void *meet_then_count(void *argument)
{
	kind->wait(&barrier);
	atomic_fetch_add(&serial, 1);
	return argument;
}

/* The last thread of the old barrier has arrived, and has not yet reported the end of its round. */
static void a_late_one_of_the_old_barrier_ends_no_round_of_the_new_one(void **state)
{
	kind = *state;
	assert_int_equal(kind->init(&barrier, 1), 0);
	struct tek_round *place = barrier.place;
	assert_true(kind->wait(&barrier));
	atomic_fetch_sub(&place->over, 2);
	assert_int_equal(kind->destroy(&barrier), 0);
	assert_int_equal(kind->init(&barrier, 2), 0);
	assert_ptr_equal(barrier.place, place);
	atomic_store(&serial, 0);
	pthread_t other = start(meet_then_count, NULL);
	while ((atomic_load(&place->arrived) & UINT32_MAX) == 0)
		sched_yield();
	atomic_fetch_add(&place->over, 2);
	nap(20);
	assert_int_equal(atomic_load(&serial), 0);
	kind->wait(&barrier);
	result_of(other);
	assert_int_equal(kind->destroy(&barrier), 0);
}

static void every_kind_is_found_by_its_name(void **state)
{
	(void)state;
	for (const struct tek_barrier_kind *const *each = tek_sync__barrier_kinds; *each; each++)
		assert_ptr_equal(tek_sync__barrier_kind_named((*each)->name), *each);
	assert_null(tek_sync__barrier_kind_named("none"));
}

#define TEST_OF(test, kind) \
	{ \
#test " (" #kind ")", test, NULL, NULL, (void *)&tek_sync__barrier_##kind \
	}
#define TESTS_OF(kind) \
	TEST_OF(nobody_passes_before_all_are_there, kind), \
		TEST_OF(signals_interrupt_nobody, kind), \
		TEST_OF(one_that_comes_out_may_free_it, kind), \
		TEST_OF(a_new_one_is_none_of_the_old_ones, kind), \
		TEST_OF(more_threads_than_make_a_round_may_use_it, kind)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_is_found_by_its_name),
		TESTS_OF(central),
		TEST_OF(one_at_which_some_wait_is_not_destroyed, central),
		TEST_OF(a_late_one_of_the_old_barrier_ends_no_round_of_the_new_one, central),
		TESTS_OF(dissemination),
		TEST_OF(one_at_which_some_wait_is_not_destroyed, dissemination),
		TESTS_OF(block),
		TESTS_OF(mutex),
		TESTS_OF(auto),
	};
	start_watchdog();
	return cmocka_run_group_tests(tests, find_host, NULL);
}
