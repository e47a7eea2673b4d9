/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The profiler's counts, compared with times that the test takes by the same clock. */
#include "support.h"

#include "profile/account.h"
#include "profile/descriptor.h"
#include "profile/modules.h"
#include "profile/object.h"
#include "profile/release.h"
#include "profile/waits.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define HERE __builtin_frame_address(0)

static char directory[] = "/tmp/tek-test-profile-XXXXXX";

static struct tek_profile_thread *self(void)
{
	return tek_prof__thread();
}

static void pass(uint64_t ns)
{
	uint64_t end = tek_prof__monotonic_ns() + ns;

	while (tek_prof__monotonic_ns() < end)
		;
}

static int begin(void **state)
{
	char variable[128];

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(variable, sizeof(variable), "MONOTONIC:0:%s", directory);
	assert_null(tek_prof__file_make(variable));
	tek_prof__threads_prepare();
	tek_prof__thread_begin(tek_prof__file_take_thread());
	tek_prof__threads_open();
	return 0;
}

static int end(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command);
}

static void a_variable_that_makes_no_sense_is_refused(void **state)
{
	(void)state;
	assert_non_null(tek_prof__file_make(""));
	assert_non_null(tek_prof__file_make("COUNTER:/tmp"));
	assert_non_null(tek_prof__file_make("COUNTER:12:relative"));
	assert_non_null(tek_prof__file_make("COUNTER:0:/nonexistent/directory"));
}

static void a_call_inside_another_one_counts_for_the_outer_one(void **state)
{
	uint64_t file = self()->ticks[TEK_PROFILE_FILE], alloc = self()->ticks[TEK_PROFILE_ALLOC];

	(void)state;
	struct tek_profile_thread *outer = tek_prof__enter(TEK_PROFILE_FILE, HERE);
	assert_non_null(outer);
	assert_null(tek_prof__enter(TEK_PROFILE_ALLOC, (const char *)HERE - 64));
	pass(2000000);
	tek_prof__leave(outer, TEK_PROFILE_FILE);
	assert_true(self()->ticks[TEK_PROFILE_FILE] - file >= 2000000);
	assert_int_equal(self()->ticks[TEK_PROFILE_ALLOC], alloc);
	assert_int_equal(self()->inside, 0);
}

static void a_call_that_was_left_by_a_jump_is_over_at_the_next_one_above_it(void **state)
{
	(void)state;
	assert_non_null(tek_prof__enter(TEK_PROFILE_FILE, (const char *)HERE - 256));
	/* No return: as after longjmp(). */
	struct tek_profile_thread *next = tek_prof__enter(TEK_PROFILE_ALLOC, HERE);
	assert_non_null(next);
	assert_int_equal(next->inside, TEK_PROFILE_ALLOC);
	/* The same function that called it calls another one, which has the same frame. */
	next = tek_prof__enter(TEK_PROFILE_ALLOC, HERE);
	assert_non_null(next);
	assert_int_equal(next->inside, TEK_PROFILE_ALLOC);
	tek_prof__leave(next, TEK_PROFILE_ALLOC);
}

static void calls_that_are_only_counted_are_estimated_from_those_that_are_timed(void **state)
{
	enum { CALLS = 4000 };
	uint64_t before = self()->ticks[TEK_PROFILE_ALLOC],
		 calls = self()->calls[TEK_PROFILE_ALLOC];
	uint64_t timed = self()->timed[TEK_PROFILE_ALLOC];
	uint64_t began = tek_prof__ticks();

	(void)state;
	for (int i = 0; i < CALLS; i++) {
		uint32_t weight;
		struct tek_profile_thread *thread = tek_prof__enter_counted(TEK_PROFILE_ALLOC, HERE,
									    false, &weight);
		pass(2000);
		if (thread)
			tek_prof__leave_counted(thread, TEK_PROFILE_ALLOC, weight);
	}
	uint64_t took = tek_prof__ticks() - began;
	uint64_t counted = self()->ticks[TEK_PROFILE_ALLOC] - before;
	assert_int_equal(self()->calls[TEK_PROFILE_ALLOC] - calls, CALLS);
	assert_true(self()->timed[TEK_PROFILE_ALLOC] - timed < CALLS / 4);
	/* On a busy machine calls are interrupted: wide. */
	assert_true(counted > CALLS * UINT64_C(2000) / 2);
	assert_true(counted < 2 * took);
}

static void a_call_that_is_only_counted_has_other_calls_inside_it(void **state)
{
	uint32_t weight = 0, inner_weight = 0;

	(void)state;
	tek_prof__self.until_timed[TEK_PROFILE_ALLOC] = 10;
	tek_prof__self.until_timed[TEK_PROFILE_FILE] = 10;
	uint64_t ticks = self()->ticks[TEK_PROFILE_FILE], calls = self()->calls[TEK_PROFILE_ALLOC];
	struct tek_profile_thread *outer = tek_prof__enter_counted(TEK_PROFILE_FILE, HERE, false,
								   &weight);
	assert_non_null(outer);
	assert_int_equal(weight, 0);
	assert_int_equal(self()->inside, TEK_PROFILE_FILE);
	/* A malloc() within it is not counted, and does not use up a timed one. */
	assert_null(tek_prof__enter_counted(TEK_PROFILE_ALLOC, (const char *)HERE - 64, false,
					    &inner_weight));
	assert_int_equal(tek_prof__self.until_timed[TEK_PROFILE_ALLOC], 10);
	assert_int_equal(self()->calls[TEK_PROFILE_ALLOC], calls);
	pass(1000000);
	tek_prof__leave_counted(outer, TEK_PROFILE_FILE, weight);
	assert_int_equal(self()->inside, 0);
	assert_int_equal(self()->ticks[TEK_PROFILE_FILE], ticks);
	/* A call that is left by a jump has no time either, because its begin was not timed. */
	assert_non_null(
		tek_prof__enter_counted(TEK_PROFILE_FILE, (const char *)HERE - 64, false, &weight));
	struct tek_profile_thread *next = tek_prof__enter_counted(TEK_PROFILE_ALLOC, HERE, true,
								  &weight);
	assert_non_null(next);
	tek_prof__leave_counted(next, TEK_PROFILE_ALLOC, weight);
	assert_int_equal(self()->ticks[TEK_PROFILE_FILE], ticks);
}

static void of_calls_for_files_it_is_known_how_long_they_slept(void **state)
{
	struct timespec time = {0, 2000000};
	int64_t slept = 0;

	(void)state;
	memset(self()->sampled, 0, sizeof(self()->sampled));
	self()->sampled_file_run = 0;
	for (int i = 0; i < 20; i++) {
		struct tek_profile_thread *thread = tek_prof__enter(TEK_PROFILE_FILE, HERE);
		/* A hypervisor that takes the CPU at either end of the sleep has the thread run. */
		uint64_t ran_before = tek_prof__run_ns(), began = tek_prof__ticks();
		nanosleep(&time, NULL);
		slept += (int64_t)(tek_prof__ticks() - began);
		slept -= (int64_t)(tek_prof__run_ns() - ran_before);
		for (uint64_t ran = tek_prof__run_ns(); tek_prof__run_ns() - ran < 2000000;)
			;
		tek_prof__leave(thread, TEK_PROFILE_FILE);
	}
	int64_t off = (int64_t)(self()->sampled[TEK_PROFILE_FILE] - self()->sampled_file_run);
	assert_true(off > slept * 9 / 10);
	assert_true(self()->sampled_file_run >= 20 * UINT64_C(2000000));
}

static void descriptors_are_known_by_what_calls_for_them_wait_for(void **state)
{
	int pipes[2], zero = open("/dev/zero", O_RDONLY), event = eventfd(0, 0);
	char path[128];

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	snprintf(path, sizeof(path), "%s/regular", directory);
	int regular = open(path, O_RDWR | O_CREAT, 0600);
	assert_true(regular >= 0);
	assert_int_equal(tek_prof__descriptor(pipes[0]), TEK_PROFILE_FILE);
	assert_int_equal(tek_prof__descriptor(pipes[0]), TEK_PROFILE_FILE);
	assert_int_equal(tek_prof__descriptor(event), TEK_PROFILE_IDLE);
	assert_int_equal(tek_prof__descriptor(zero), 0);
	assert_int_equal(tek_prof__descriptor(regular), 0);
	errno = 7;
	assert_int_equal(tek_prof__descriptor(-1), 0);
	assert_int_equal(tek_prof__descriptor(65000), 0);
	assert_int_equal(errno, 7);
	/* The number becomes another file. */
	tek_prof__descriptor_forget(pipes[0]);
	assert_int_equal(dup2(regular, pipes[0]), pipes[0]);
	assert_int_equal(tek_prof__descriptor(pipes[0]), 0);
	close(pipes[0]);
	close(pipes[1]);
	close(zero);
	close(event);
	close(regular);
}

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

static int thing;

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

static void the_limits_of_time_are_the_same_at_any_rate_of_the_clock(void **state)
{
	(void)state;
#if defined(__x86_64__) || defined(__aarch64__)
	assert_non_null(tek_prof__file_make("COUNTER@24000:0:/nonexistent/directory"));
	assert_int_equal(tek_prof__ticks_of_ns(TEK_PROFILE_LONG_NS), 2400);
#endif
	assert_non_null(tek_prof__file_make("MONOTONIC:0:/nonexistent/directory"));
	assert_int_equal(tek_prof__ticks_of_ns(TEK_PROFILE_LONG_NS), TEK_PROFILE_LONG_NS);
}

static void
a_lock_that_is_never_given_back_does_not_keep_other_locks_from_being_measured(void **state)
{
	static char locks[TEK_PROFILE_HELD + 1];
	static int site;
	struct tek_profile_object *object = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(locks); i++) {
		object = tek_prof__object(self(), &locks[i], &site, TEK_PROFILE_MUTEX, true);
		assert_non_null(object);
		tek_prof__holds(&locks[i], object, tek_prof__ticks());
	}
	tek_prof__gives_back(&locks[TEK_PROFILE_HELD]);
	assert_int_equal(object->holds, 1);
	for (size_t i = 0; i < sizeof(locks); i++)
		tek_prof__gives_back(&locks[i]);
	assert_int_equal(tek_prof__self.held, 0);
}

static void a_wait_that_was_left_is_no_wait_any_more(void **state)
{
	struct tek_profile_place *place = tek_prof__place(&thing);

	(void)state;
	assert_int_equal(place->waiters, 0);
	struct tek_profile_waiting waiting = tek_prof__wait(TEK_PROFILE_SYNC, &thing, HERE);
	assert_int_equal(place->waiters, 1);
	tek_prof__wait_cleanup(&waiting);
	assert_int_equal(place->waiters, 0);
	assert_int_equal(self()->inside, 0);
	assert_int_equal(self()->is_waiting, 0);
}

static void waits_go_on_in_another_block_when_one_is_full(void **state)
{
	enum { WAITS = 5000 };
	uint32_t before = __atomic_load_n(&tek_prof__file->blocks, __ATOMIC_RELAXED);

	(void)state;
	for (uint64_t i = 1; i <= WAITS; i++) {
		struct tek_profile_wait wait = {.begin_ticks = i, .end_ticks = i};
		tek_prof__waits_add(self(), &wait);
	}
	assert_true(__atomic_load_n(&tek_prof__file->blocks, __ATOMIC_RELAXED) > before);
	assert_int_equal(self()->lost_waits, 0);
}

static void modules_are_noted_once(void **state)
{
	(void)state;
	tek_prof__modules_note();
	tek_u32 modules = tek_prof__file->modules;
	assert_true(modules > 0);
	tek_prof__modules_note();
	assert_int_equal(tek_prof__file->modules, modules);
}

static void the_last_moment_on_a_cpu_is_known(void **state)
{
	uint64_t run, delay;

	(void)state;
	/* The scheduler itself accounts only some hundred times a second. */
	for (int i = 0; i < 20; i++) {
		uint64_t ran = tek_prof__run_ns() + 200000;
		while (tek_prof__run_ns() < ran)
			;
		assert_true(tek_prof__scheduler((uint32_t)getpid(), &run, &delay));
		assert_true(run >= ran);
	}
}

static void the_scheduler_has_times_of_a_thread_and_none_of_a_missing_one(void **state)
{
	uint64_t run = 0, delay = 0;

	(void)state;
	assert_true(tek_prof__scheduler((uint32_t)getpid(), &run, &delay));
	assert_true(run > 0);
	errno = 7;
	assert_false(tek_prof__scheduler(0x7ffffff0, &run, &delay));
	assert_int_equal(errno, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_a_thread_that_is_alone_has_serial_time),
		cmocka_unit_test(a_call_inside_another_one_counts_for_the_outer_one),
		cmocka_unit_test(a_call_that_was_left_by_a_jump_is_over_at_the_next_one_above_it),
		cmocka_unit_test(
			calls_that_are_only_counted_are_estimated_from_those_that_are_timed),
		cmocka_unit_test(a_call_that_is_only_counted_has_other_calls_inside_it),
		cmocka_unit_test(of_calls_for_files_it_is_known_how_long_they_slept),
		cmocka_unit_test(descriptors_are_known_by_what_calls_for_them_wait_for),
		cmocka_unit_test(serial_time_does_not_begin_before_the_threads_last_wait),
		cmocka_unit_test(locks_that_could_not_be_had_take_one_place_each),
		cmocka_unit_test(
			how_long_a_lock_is_held_on_average_does_not_depend_on_what_is_measured),
		cmocka_unit_test(a_wait_has_the_thread_that_ended_it),
		cmocka_unit_test(more_locks_than_there_is_room_for_count_together_by_their_place),
		cmocka_unit_test(how_long_a_lock_is_held_is_measured),
		cmocka_unit_test(waits_go_on_in_another_block_when_one_is_full),
		cmocka_unit_test(modules_are_noted_once),
		cmocka_unit_test(the_last_moment_on_a_cpu_is_known),
		cmocka_unit_test(the_scheduler_has_times_of_a_thread_and_none_of_a_missing_one),
		cmocka_unit_test(
			a_lock_that_is_never_given_back_does_not_keep_other_locks_from_being_measured),
		cmocka_unit_test(a_wait_that_was_left_is_no_wait_any_more),
		cmocka_unit_test(the_limits_of_time_are_the_same_at_any_rate_of_the_clock),
		cmocka_unit_test(a_variable_that_makes_no_sense_is_refused),
	};
	return cmocka_run_group_tests(tests, begin, end);
}
