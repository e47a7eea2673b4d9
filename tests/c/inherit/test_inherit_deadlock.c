/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A deadlock in front of which a Fast thread waits stays one, and no thread of it stays lifted. */
#include "inherit_support.h"

/* A thread that holds one mutex and waits for another. */
struct link {
	pthread_t thread;
	pthread_mutex_t *holds, *wants;
	pthread_barrier_t *all_hold;
	long patience_ms;
	_Atomic pid_t tid;
	_Atomic bool has_ended;
};

static void *link_main(void *argument)
{
	struct link *link = argument;

	pthread_mutex_lock(link->holds);
	pthread_barrier_wait(link->all_hold);
	const struct timespec end = in_ms(CLOCK_REALTIME, link->patience_ms);
	link->tid = own_tid();
	if (pthread_mutex_timedlock(link->wants, &end) == 0)
		pthread_mutex_unlock(link->wants);
	link->has_ended = true;
	pthread_mutex_unlock(link->holds);
	return NULL;
}

static void *lock_as_fast(void *argument)
{
	set_tek(pthread_self(), 0);
	pthread_mutex_lock(argument);
	pthread_mutex_unlock(argument);
	return NULL;
}

enum { MOST_LINKS = 100 };

struct circle {
	pthread_mutex_t mutexes[MOST_LINKS];
	struct link links[MOST_LINKS];
	int count;
	pthread_barrier_t all_hold;
};

static void close_circle(struct circle *circle, long patience_ms)
{
	pthread_barrier_init(&circle->all_hold, NULL, (unsigned int)circle->count);
	for (int i = 0; i < circle->count; i++)
		pthread_mutex_init(&circle->mutexes[i], NULL);
	for (int i = 0; i < circle->count; i++) {
		struct link *link = &circle->links[i];
		*link = (struct link){.holds = &circle->mutexes[i],
				      .wants = &circle->mutexes[(i + 1) % circle->count],
				      .all_hold = &circle->all_hold,
				      .patience_ms = patience_ms};
		assert_int_equal(pthread_create(&link->thread, NULL, link_main, link), 0);
	}
	for (int i = 0; i < circle->count; i++) {
		await(&circle->links[i].tid);
		assert_true(sleeps(circle->links[i].tid));
	}
}

static int count_fast(const struct circle *circle)
{
	int fast = 0;

	for (int i = 0; i < circle->count; i++)
		fast += is_fast(circle->links[i].tid);
	return fast;
}

/* Returns false if a thread of it gave up before it could be queried. */
static bool query_circle(struct circle *circle, long patience_ms, int *fast)
{
	pthread_t waiter;
	bool was_whole = true;

	close_circle(circle, patience_ms);
	assert_int_equal(pthread_create(&waiter, NULL, lock_as_fast, &circle->mutexes[0]), 0);
	sleep_ms(100);
	*fast = count_fast(circle);
	for (int i = 0; i < circle->count; i++)
		was_whole &= !circle->links[i].has_ended;
	for (int i = 0; i < circle->count; i++)
		pthread_join(circle->links[i].thread, NULL);
	pthread_join(waiter, NULL);
	pthread_barrier_destroy(&circle->all_hold);
	return was_whole;
}

static void assert_circle_is_not_lifted(int count)
{
	static struct circle circle;
	long patience_ms = 500;
	int fast;

	need_real_time();
	circle.count = count;
	while (!query_circle(&circle, patience_ms, &fast))
		patience_ms *= 2;
	assert_int_equal(fast, 0);
}

static void two_holders_that_wait_for_each_other_are_not_lifted(void **state)
{
	(void)state;
	assert_circle_is_not_lifted(2);
}

static void a_circle_of_three_holders_is_not_lifted(void **state)
{
	(void)state;
	assert_circle_is_not_lifted(3);
}

static void a_circle_of_a_hundred_holders_is_not_lifted(void **state)
{
	(void)state;
	assert_circle_is_not_lifted(100);
}

static void a_holder_that_waits_for_itself_is_not_lifted(void **state)
{
	(void)state;
	assert_circle_is_not_lifted(1);
}

#ifdef __GLIBC__
/* The owner is forged, so that it does not last for some instructions only. */
static void a_holder_that_has_just_got_another_mutex_is_lifted(void **state)
{
	pthread_barrier_t alone;
	pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
	struct link link = {.holds = &first,
			    .wants = &second,
			    .all_hold = &alone,
			    .patience_ms = 2 * PATIENCE_MS};
	pthread_t waiter;

	(void)state;
	need_real_time();
	pthread_barrier_init(&alone, NULL, 1);
	pthread_mutex_lock(&second);
	assert_int_equal(pthread_create(&link.thread, NULL, link_main, &link), 0);
	await(&link.tid);
	assert_true(sleeps(link.tid));
	const int owner = second.__data.__owner;
	__atomic_store_n(&second.__data.__owner, link.tid, __ATOMIC_SEQ_CST);
	assert_int_equal(pthread_create(&waiter, NULL, lock_as_fast, &first), 0);
	assert_true(becomes(link.tid, true));
	__atomic_store_n(&second.__data.__owner, owner, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&second);
	pthread_join(link.thread, NULL);
	pthread_join(waiter, NULL);
	pthread_barrier_destroy(&alone);
}
#endif

/* Waits are known from the first Fast thread of the process on. */
static int begin(void **state)
{
	(void)state;
	set_tek(pthread_self(), 0);
	set_other(pthread_self());
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_holders_that_wait_for_each_other_are_not_lifted),
		cmocka_unit_test(a_circle_of_three_holders_is_not_lifted),
		cmocka_unit_test(a_circle_of_a_hundred_holders_is_not_lifted),
		cmocka_unit_test(a_holder_that_waits_for_itself_is_not_lifted),
#ifdef __GLIBC__
		cmocka_unit_test(a_holder_that_has_just_got_another_mutex_is_lifted),
#endif
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
