/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Waits for locks, how long locks are held, and time in which one thread computes alone. */
#include "account_support.h"

#include "profile/object.h"
#include "profile/release.h"

#include <pthread.h>

static void only_a_thread_that_is_alone_has_serial_time(void **state)
{
	uint64_t before = self()->serial_ticks;
	uint32_t other = tek_prof__file_take_thread();

	(void)state;
	assert_true(tek_prof__is_alone());
	tek_prof__active(other, tek_prof__ticks());
	assert_false(tek_prof__is_alone());
	uint64_t alone = self()->serial_ticks;
	assert_true(alone > before);
	pass(1000000);
	tek_prof__inactive(other, tek_prof__ticks());
	assert_int_equal(self()->serial_ticks, alone);
	pass(1000000);
	tek_prof__active(other, tek_prof__ticks());
	assert_true(self()->serial_ticks - alone >= 1000000);
	assert_int_equal(tek_prof__file_thread(other)->serial_ticks, 0);
	tek_prof__inactive(other, tek_prof__ticks());
}

static void serial_time_does_not_begin_before_the_threads_last_wait(void **state)
{
	uint64_t long_ago = tek_prof__ticks(), before = self()->serial_ticks;
	uint32_t number = tek_prof__self.number, other = tek_prof__file_take_thread();

	(void)state;
	pass(20000000);
	tek_prof__inactive(number, tek_prof__ticks());
	before = self()->serial_ticks;
	uint64_t last_wait = tek_prof__ticks();
	tek_prof__active(number, last_wait);
	/* Written late by a thread that was interrupted. */
	tek_prof__file->serial_since = long_ago;
	uint64_t now = tek_prof__ticks();
	tek_prof__active(other, now);
	assert_int_equal(self()->serial_ticks - before, now - last_wait);
	tek_prof__inactive(other, tek_prof__ticks());
}

static void *release(void *file)
{
	(void)file;
	/* Not before a waiter exists. */
	while (__atomic_load_n(&tek_prof__place(&thing)->waiters, __ATOMIC_ACQUIRE) == 0)
		;
	tek_prof__thread_begin(tek_prof__thread_new());
	uint32_t number = tek_prof__self.number;
	tek_prof__releases(&thing);
	return (void *)(uintptr_t)number;
}

static void a_wait_has_the_thread_that_ended_it(void **state)
{
	pthread_t thread;
	void *number;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, release, NULL), 0);
	struct tek_profile_waiting waiting = tek_prof__wait(TEK_PROFILE_SYNC, &thing, HERE);
	assert_int_equal(self()->is_waiting, 1);
	assert_int_equal(pthread_join(thread, &number), 0);
	pass(10000);
	tek_prof__waited(&waiting, TEK_PROFILE_SYNC, TEK_PROFILE_MUTEX, NULL, NULL);
	assert_int_equal(self()->is_waiting, 0);

	struct tek_profile_block *block = tek_prof__self.block;
	assert_non_null(block);
	const struct tek_profile_wait *wait = (const struct tek_profile_wait *)(block + 1) +
					      block->waits - 1;
	assert_int_equal(wait->object, (uintptr_t)&thing);
	assert_int_equal(wait->waker, (uintptr_t)number);
	assert_true(wait->begin_ticks <= wait->released_ticks);
	assert_true(wait->released_ticks <= wait->end_ticks);
	/* The thread has ended: its destructor saw it. */
	assert_true(tek_prof__file_thread(wait->waker)->end_ticks != 0);
}

static void more_locks_than_there_is_room_for_count_together_by_their_place(void **state)
{
	static char locks[10 * TEK_PROFILE_OBJECTS];
	static const int site, contended_site;
	uint64_t sum = 0, lost = self()->lost_objects;

	(void)state;
	for (size_t i = 0; i < sizeof(locks); i++) {
		struct tek_profile_object *object = tek_prof__object(self(), &locks[i], &site,
								     TEK_PROFILE_MUTEX, false);
		if (object)
			object->count++;
	}
	/* A contended object still gets a place of its own. */
	struct tek_profile_object *waited = tek_prof__object(self(), &locks[7], &contended_site,
							     TEK_PROFILE_MUTEX, true);
	assert_non_null(waited);
	assert_int_equal(waited->object, (uintptr_t)&locks[7]);
	const struct tek_profile_object *objects = tek_prof__file_objects(self());
	for (int i = 0; i < (int)TEK_PROFILE_OBJECTS; i++)
		if (objects[i].site == (uintptr_t)&site)
			sum += objects[i].count;
	assert_int_equal(sum + self()->lost_objects - lost, sizeof(locks));
}

static void how_long_a_lock_is_held_is_measured(void **state)
{
	static int lock, site;
	struct tek_profile_object *object = tek_prof__object(self(), &lock, &site,
							     TEK_PROFILE_MUTEX, true);

	(void)state;
	assert_non_null(object);
	tek_prof__holds(&lock, object, tek_prof__ticks());
	pass(1000000);
	tek_prof__gives_back(&lock);
	assert_int_equal(object->holds, 1);
	assert_true(object->hold_ticks >= 1000000);
	assert_int_equal(object->hold_most, object->hold_ticks);
	tek_prof__gives_back(&lock);
	assert_int_equal(object->holds, 1);
}

enum { SHORT_HOLDS = 3200, LONG_HOLDS = 20, HOLDS = SHORT_HOLDS + LONG_HOLDS };

/*
 * Returns the total time in ns; 0 if a short call, which may stand for 31 or for none, was
 * interrupted.
 */
static uint64_t hold_shortly_and_long(const int *lock, struct tek_profile_object *object)
{
	bool disturbed = false;
	uint64_t held = 0;

	for (int i = 0; i < HOLDS; i++) {
		bool is_short = i < SHORT_HOLDS;
		uint64_t began = tek_prof__ticks();
		tek_prof__holds(lock, object, is_short ? 0 : began);
		pass(is_short ? 1000 : 1000000);
		tek_prof__gives_back(lock);
		uint64_t took = tek_prof__ticks() - began;
		disturbed = disturbed || (is_short && took > 50000);
		held += took;
	}
	return disturbed ? 0 : held;
}

static void how_long_a_lock_is_held_on_average_does_not_depend_on_what_is_measured(void **state)
{
	static int lock, site;
	struct tek_profile_object *object = tek_prof__object(self(), &lock, &site,
							     TEK_PROFILE_MUTEX, true);

	(void)state;
	for (int attempt = 0; attempt < 50; attempt++) {
		uint64_t holds = object->holds, ticks = object->hold_ticks;
		uint64_t held = hold_shortly_and_long(&lock, object);
		holds = object->holds - holds;
		ticks = object->hold_ticks - ticks;
		assert_true(holds > HOLDS * 9 / 10);
		assert_true(holds < HOLDS * 11 / 10);
		if (!held)
			continue;
		uint64_t mean = ticks / holds, right = held / HOLDS;
		assert_true(mean > right / 2 && mean < right * 2);
		return;
	}
	print_message("# needs a CPU for itself, for some ms\n");
	skip();
}

static void locks_that_could_not_be_had_take_one_place_each(void **state)
{
	static int lock, site;
	uint32_t before = tek_prof__self.objects;

	(void)state;
	for (int i = 0; i < 10; i++)
		assert_non_null(tek_prof__object(self(), &lock, &site, TEK_PROFILE_MUTEX, true));
	assert_true(tek_prof__self.objects <= before + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_a_thread_that_is_alone_has_serial_time),
		cmocka_unit_test(serial_time_does_not_begin_before_the_threads_last_wait),
		cmocka_unit_test(locks_that_could_not_be_had_take_one_place_each),
		cmocka_unit_test(
			how_long_a_lock_is_held_on_average_does_not_depend_on_what_is_measured),
		cmocka_unit_test(a_wait_has_the_thread_that_ended_it),
		cmocka_unit_test(more_locks_than_there_is_room_for_count_together_by_their_place),
		cmocka_unit_test(how_long_a_lock_is_held_is_measured),
	};
	return cmocka_run_group_tests(tests, begin, end);
}
