/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A deadlock of which Fast threads are a part stays one, and lifts no thread for ever. */
#include "inherit_support.h"

enum { MOST = 3, SOME_MS = 200 };

/* Each thread holds its own mutex, and waits for that of the next one, for ever. */
static struct member {
	pthread_t thread;
	pthread_mutex_t mutex;
	_Atomic pid_t tid;
	_Atomic bool may_wait, has_two_mutexes;
	bool is_fast;
} members[MOST];
static int count;

static void *member_main(void *argument)
{
	struct member *self = argument;
	struct member *next = &members[(self - members + 1) % count];

	if (self->is_fast)
		set_tek(pthread_self(), 0);
	pthread_mutex_lock(&self->mutex);
	self->tid = own_tid();
	while (!self->may_wait)
		sleep_ms(1);
	pthread_mutex_lock(&next->mutex);
	self->has_two_mutexes = true;
	return NULL;
}

static bool is_deadlocked(void)
{
	for (int i = 0; i < count; i++)
		if (members[i].has_two_mutexes || !sleeps(members[i].tid))
			return false;
	return true;
}

/* Each thread is Fast only if it has asked for it, and stays so. */
static bool none_is_lifted(void)
{
	for (int i = 0; i < count; i++)
		if (!becomes(members[i].tid, members[i].is_fast))
			return false;
	for (int ms = 0; ms < SOME_MS; ms++) {
		for (int i = 0; i < count; i++)
			if (is_fast(members[i].tid) != members[i].is_fast)
				return false;
		sleep_ms(1);
	}
	return true;
}

/* A bit of `fast` for each Fast thread. The thread `first` begins to wait before the next ones. */
static int deadlock(int size, int fast, int first)
{
	count = size;
	for (int i = 0; i < count; i++) {
		members[i].is_fast = fast >> i & 1;
		pthread_mutex_init(&members[i].mutex, NULL);
		if (pthread_create(&members[i].thread, NULL, member_main, &members[i]))
			return 2;
		await(&members[i].tid);
	}
	for (int i = 0; i < count; i++) {
		struct member *member = &members[(first + i) % count];
		member->may_wait = true;
		sleep_ms(5); /* it waits, unless the machine is busy */
	}
	if (!is_deadlocked())
		return 3;
	if (!none_is_lifted())
		return 4;
	return is_deadlocked() ? 0 : 5;
}

static int size_of_case, fast_of_case, first_of_case;

static int in_case(void)
{
	return deadlock(size_of_case, fast_of_case, first_of_case);
}

/* In a child process, because deadlocked threads never end. */
static void expect_deadlock(int size, int fast, int first)
{
	size_of_case = size;
	fast_of_case = fast;
	first_of_case = first;
	assert_int_equal(in_child(in_case), 0);
}

static void a_fast_and_an_ordinary_thread_in_a_deadlock_stay_what_they_are(void **state)
{
	(void)state;
	need_real_time();
	expect_deadlock(2, 1, 0);
	expect_deadlock(2, 1, 1);
	expect_deadlock(2, 3, 0);
}

static void a_circle_of_three_with_fast_threads_lifts_none_for_ever(void **state)
{
	(void)state;
	need_real_time();
	for (int first = 0; first < 3; first++)
		expect_deadlock(3, 1, first);
	expect_deadlock(3, 3, 0);
}

static int become_fast_in_a_deadlock(void)
{
	int result = deadlock(2, 0, 0);

	if (result)
		return result;
	members[0].is_fast = true;
	if (set_tek(members[0].thread, 0))
		return 6;
	return none_is_lifted() ? 0 : 7;
}

static void a_deadlocked_thread_that_becomes_fast_lifts_none_for_ever(void **state)
{
	(void)state;
	need_real_time();
	assert_int_equal(in_child(become_fast_in_a_deadlock), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fast_and_an_ordinary_thread_in_a_deadlock_stay_what_they_are),
		cmocka_unit_test(a_circle_of_three_with_fast_threads_lifts_none_for_ever),
		cmocka_unit_test(a_deadlocked_thread_that_becomes_fast_lifts_none_for_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
