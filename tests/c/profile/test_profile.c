/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The profiler's counts, compared with times that the test takes by the same clock. */
#include "account_support.h"

#include "profile/descriptor.h"
#include "profile/modules.h"
#include "profile/object.h"
#include "profile/release.h"
#include "profile/waits.h"

#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

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
		cmocka_unit_test(a_call_inside_another_one_counts_for_the_outer_one),
		cmocka_unit_test(a_call_that_was_left_by_a_jump_is_over_at_the_next_one_above_it),
		cmocka_unit_test(
			calls_that_are_only_counted_are_estimated_from_those_that_are_timed),
		cmocka_unit_test(a_call_that_is_only_counted_has_other_calls_inside_it),
		cmocka_unit_test(of_calls_for_files_it_is_known_how_long_they_slept),
		cmocka_unit_test(descriptors_are_known_by_what_calls_for_them_wait_for),
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
