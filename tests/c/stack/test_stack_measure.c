/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How much of a stack was used: the interval contains the truth, whatever the thread does. */
#include "measure_support.h"

#include "stack/config.h"
#include "threads/present.h"
#include "threads/process.h"

#include <signal.h>
#include <stdatomic.h>

/* The bytes that were learnt of the site of each thread. */
static size_t learnt_bytes;

size_t __wrap_tek__site_learnt_bytes(unsigned short site);
size_t __wrap_tek__site_learnt_bytes(unsigned short site)
{
	(void)site;
	return learnt_bytes;
}

static uintptr_t in_frames(size_t bytes)
{
	return recurse((unsigned int)(bytes / 256));
}

static void deep_frames_are_measured(void **state)
{
	(void)state;
	struct job job = {.use = in_frames, .bytes = 100 * KIB};
	run(&job, NULL);
	assert_right(&job);
	assert_in_range(job.live.bound_bytes - job.live.peak_bytes, 0, 8 * KIB);
}

static void memory_of_alloca_is_measured(void **state)
{
	(void)state;
	struct job job = {.use = use_stack, .bytes = 150 * KIB};
	for (int i = 0; i < 5; i++) {
		run(&job, NULL);
		assert_peak_is_right(&job);
		assert_in_range(job.live.bound_bytes, job.truth, job.truth + 4 * KIB);
	}
}

static void an_array_that_is_hardly_touched_is_measured_to_its_lowest_byte(void **state)
{
	(void)state;
	struct job job = {.use = skip_stack, .bytes = 777 * KIB};
	for (int i = 0; i < 5; i++) {
		run(&job, NULL);
		assert_peak_is_right(&job);
		assert_in_range(job.live.bound_bytes, job.truth, job.truth + 4 * KIB);
	}
}

/* glibc gives the stack of an ended thread to the next one. */
static void a_shallow_thread_is_not_measured_with_what_a_deep_one_left(void **state)
{
	(void)state;
	struct job deep = {.use = use_stack, .bytes = 300000};
	for (size_t bytes = 12 * KIB; bytes < 40 * KIB; bytes += 3333) {
		struct job shallow = {.use = use_stack, .bytes = bytes};
		run(&deep, NULL);
		assert_peak_is_right(&deep);
		run(&shallow, NULL);
		assert_peak_is_right(&shallow);
		assert_in_range(shallow.live.bound_bytes, shallow.truth, shallow.truth + 8 * KIB);
	}
}

/* Painted over by us, so that even zeros are seen. */
static void on_a_stack_used_again_the_measure_is_exact(void **state)
{
	(void)state;
	struct job first = {.use = use_stack, .bytes = 10 * KIB};
	for (size_t bytes = 6001; bytes < 9 * KIB; bytes += 777) {
		struct job again = {.use = use_stack, .bytes = bytes};
		run(&first, NULL);
		run(&again, NULL);
		assert_exact(&again);
	}
}

static void threads_that_are_not_measured_do_not_spoil_the_next(void **state)
{
	(void)state;
	struct job shallow = {.use = use_stack, .bytes = 9 * KIB};
	pthread_t thread;
	for (int i = 0; i < 3; i++) {
		run(&shallow, NULL);
		assert_peak_is_right(&shallow);
		assert_int_equal(pthread_create(&thread, NULL, nothing, NULL), 0);
		pthread_join(thread, NULL);
	}
}

static _Atomic uintptr_t handler_used;

static void handler(int signal)
{
	(void)signal;
	handler_used = use_stack(60 * KIB);
}

static uintptr_t be_interrupted(size_t bytes)
{
	(void)bytes;
	pthread_kill(pthread_self(), SIGUSR1);
	return handler_used;
}

static void a_signal_handler_on_the_stack_is_measured(void **state)
{
	(void)state;
	struct job job = {.use = be_interrupted};
	signal(SIGUSR1, handler);
	run(&job, NULL);
	assert_peak_is_right(&job);
	signal(SIGUSR1, SIG_DFL);
}

static pthread_key_t key;
static size_t destructor_truth;

static void destructor(void *value)
{
	(void)value;
	destructor_truth = stack_end() - use_stack(300000);
}

static void *work_with_key(void *argument)
{
	pthread_setspecific(key, argument);
	return NULL;
}

static void a_destructor_of_thread_specific_data_is_measured(void **state)
{
	(void)state;
	pthread_t thread;
	pthread_key_create(&key, destructor);
	assert_int_equal(pthread_create(&thread, NULL, work_with_key, &key), 0);
	pthread_join(thread, NULL);
	assert_int_equal(newest.peak_bytes, destructor_truth);
	assert_in_range(newest.bound_bytes, destructor_truth, destructor_truth + 4 * KIB);
	pthread_key_delete(key);
}

static void in_exact_mode_the_measure_is_right_to_the_byte(void **state)
{
	(void)state;
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * KIB);
	tek__stack_config.exact = true;
	for (size_t bytes = 10001; bytes < 200000; bytes = bytes * 3 / 2 + 1) {
		struct job written = {.use = use_stack, .bytes = bytes};
		struct job skipped = {.use = skip_stack, .bytes = bytes + 99};
		run(&written, &attr);
		assert_exact(&written);
		run(&skipped, &attr);
		assert_exact(&skipped);
	}
	tek__stack_config.exact = false;
	pthread_attr_destroy(&attr);
}

static void the_zone_follows_from_how_much_of_a_stack_is_used(void **state)
{
	(void)state;
	static const struct {
		size_t bytes;
		int zone;
	} cases[] = {{30 * KIB, TEK_STACK_LOW},
		     {100 * KIB, TEK_STACK_NORMAL},
		     {220 * KIB, TEK_STACK_HIGH}};
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * KIB);
	for (size_t i = 0; i < 3; i++) {
		struct job job = {.use = use_stack, .bytes = cases[i].bytes};
		run(&job, &attr);
		assert_int_equal(job.live.zone, cases[i].zone);
	}
	pthread_attr_destroy(&attr);
}

static uintptr_t use_as_fitted(size_t bytes)
{
	assert_true(tek__lock());
	tek__thread_self()->stack.flags |= TEK_STACK_TUNED;
	tek__unlock();
	return use_stack(bytes);
}

static void a_fitted_stack_is_high_only_beyond_what_was_learnt(void **state)
{
	(void)state;
	struct job job = {.use = use_as_fitted, .bytes = 220 * KIB};
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * KIB);
	learnt_bytes = 230 * KIB;
	run(&job, &attr);
	assert_int_equal(job.live.zone, TEK_STACK_NORMAL);
	learnt_bytes = 210 * KIB;
	run(&job, &attr);
	assert_int_equal(job.live.zone, TEK_STACK_HIGH);
	learnt_bytes = 0;
	pthread_attr_destroy(&attr);
}

static void zeros_count_in_exact_mode_and_are_within_the_bound_without(void **state)
{
	(void)state;
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 * KIB);
	struct job job = {.use = use_zeros, .bytes = 50001};
	run(&job, &attr);
	assert_right(&job);
	tek__stack_config.exact = true;
	run(&job, &attr);
	assert_exact(&job);
	tek__stack_config.exact = false;
	pthread_attr_destroy(&attr);
}

static void the_first_thread_is_measured(void **state)
{
	(void)state;
	struct tek_stack_info info;
	struct rlimit limit;
	size_t truth = first_stack_end() - use_stack(500000);

	getrlimit(RLIMIT_STACK, &limit);
	assert_int_equal(tek_stack_get(pthread_self(), &info), 0);
	assert_int_equal(info.peak_bytes, truth);
	assert_in_range(info.bound_bytes, truth, truth + 4 * KIB);
	assert_int_equal(info.stack_bytes, limit.rlim_cur == RLIM_INFINITY ? 0 : limit.rlim_cur);
}

static void the_first_thread_is_measured_where_its_stack_is_unlimited(void **state)
{
	(void)state;
	struct tek_stack_info info;
	struct rlimit before, limit;

	getrlimit(RLIMIT_STACK, &before);
	limit = before;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_STACK, &limit);
	size_t truth = first_stack_end() - use_stack(600000);
	assert_int_equal(tek_tid_stack_get(0, &info), 0);
	setrlimit(RLIMIT_STACK, &before);
	assert_int_equal(info.peak_bytes, truth);
	assert_in_range(info.bound_bytes, truth, truth + 4 * KIB);
}

static void each_way_of_asking_the_kernel_gives_the_same(void **state)
{
	(void)state;
	unsigned int before = tek__present_ways;
	for (unsigned int way = first_way(); way <= TEK_PRESENT_MINCORE; way *= 2) {
		struct job job = {.use = skip_stack, .bytes = 50 * KIB * way};
		tek__present_ways = way;
		run(&job, NULL);
		assert_peak_is_right(&job);
		assert_in_range(job.live.bound_bytes, job.truth, job.truth + 4 * KIB);
	}
	tek__present_ways = before;
}

int main(int count, char **arguments)
{
	(void)count;
	measure_in(arguments, "report,period=0");
	if (cannot_measure())
		return 0;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deep_frames_are_measured),
		cmocka_unit_test(memory_of_alloca_is_measured),
		cmocka_unit_test(an_array_that_is_hardly_touched_is_measured_to_its_lowest_byte),
		cmocka_unit_test(a_shallow_thread_is_not_measured_with_what_a_deep_one_left),
		cmocka_unit_test(on_a_stack_used_again_the_measure_is_exact),
		cmocka_unit_test(threads_that_are_not_measured_do_not_spoil_the_next),
		cmocka_unit_test(a_signal_handler_on_the_stack_is_measured),
		cmocka_unit_test(a_destructor_of_thread_specific_data_is_measured),
		cmocka_unit_test(in_exact_mode_the_measure_is_right_to_the_byte),
		cmocka_unit_test(the_zone_follows_from_how_much_of_a_stack_is_used),
		cmocka_unit_test(a_fitted_stack_is_high_only_beyond_what_was_learnt),
		cmocka_unit_test(zeros_count_in_exact_mode_and_are_within_the_bound_without),
		cmocka_unit_test(the_first_thread_is_measured),
		cmocka_unit_test(the_first_thread_is_measured_where_its_stack_is_unlimited),
		cmocka_unit_test(each_way_of_asking_the_kernel_gives_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
