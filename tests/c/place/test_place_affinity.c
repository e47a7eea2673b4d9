/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The program's own affinities precede, and are handed down as without TEK. */
#include "life/confine.h"
#include "place_support.h"

static int keep_attribute(void)
{
	pthread_attr_t attr;
	const struct tek_mask own = tek__mask_of(cpus[0]);

	begin("");
	pthread_attr_init(&attr);
	pthread_attr_setaffinity_np(&attr, sizeof(own), (const cpu_set_t *)&own);
	/* And no CPU is dealt to it. */
	return reported_by(report_cpu, &attr) != (int)cpus[0] ||
	       reported_by(report_cpu, &attr) != (int)cpus[0] ||
	       reported_by(report_cpu, NULL) != (int)cpus[1];
}

static void a_thread_with_an_affinity_in_its_attributes_keeps_it(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(keep_attribute), 0);
}

static int move(pthread_t thread, const struct tek_mask *mask)
{
	return pthread_setaffinity_np(thread, sizeof(*mask), (const cpu_set_t *)mask);
}

static struct tek_mask reported_affinity(pthread_t thread)
{
	struct tek_mask mask;

	if (pthread_getaffinity_np(thread, sizeof(mask), (cpu_set_t *)&mask))
		abort();
	return mask;
}

static bool is_reported(pthread_t thread, const struct tek_mask *mask)
{
	const struct tek_mask reported = reported_affinity(thread);
	return tek__mask_equal(&reported, mask);
}

/* Where it is, where TEK would not have put the next ones, and where TEK put it. */
static int keep_inherited(void)
{
	const struct tek_mask own = tek__mask_of(cpus[0]), other = tek__mask_of(cpus[1]);

	begin("");
	if (move(pthread_self(), &other) || reported_by(report_cpu, NULL) != (int)cpus[1] ||
	    reported_by(report_cpu, NULL) != (int)cpus[1] || !is_reported(pthread_self(), &other))
		return 1;
	return move(pthread_self(), &own) || reported_by(report_cpu, NULL) != (int)cpus[0] ||
	       reported_by(report_cpu, NULL) != (int)cpus[0] || !is_reported(pthread_self(), &own);
}

static void a_thread_that_chose_its_affinity_hands_it_down_as_without_tek(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(keep_inherited), 0);
}

static int pinned_child(void)
{
	const struct tek_mask own = tek__mask_of(cpus[0]);
	return only_cpu() == (int)cpus[0] && is_reported(pthread_self(), &own) ? 0 : 3;
}

static int fork_pinned(void)
{
	const struct tek_mask own = tek__mask_of(cpus[0]);

	begin("");
	return move(pthread_self(), &own) ? 2 : in_child(pinned_child);
}

static void the_child_of_a_fork_stays_where_its_parent_chose_to_be(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(fork_pinned), 0);
}

static int restore(void)
{
	const struct tek_mask other = tek__mask_of(cpus[1]);

	begin("");
	for (int i = 0; i < 2; i++) {
		const struct tek_mask saved = reported_affinity(pthread_self());
		if (i == 1 && move(pthread_self(), &other))
			return 2;
		if (move(pthread_self(), &saved) || only_cpu() != (int)cpus[0] ||
		    !is_reported(pthread_self(), &allowed))
			return 3;
		/* The first thread has cpus[0]. */
		if (reported_by(report_cpu, NULL) != (int)cpus[1] ||
		    reported_by(report_cpu, NULL) != (int)cpus[0])
			return 4;
	}
	return 0;
}

static void a_thread_that_sets_the_reported_affinity_goes_to_its_place(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(restore), 0);
}

static int attribute_as_reported(void)
{
	pthread_attr_t attr;

	begin("");
	const struct tek_mask reported = reported_affinity(pthread_self());
	pthread_attr_init(&attr);
	pthread_attr_setaffinity_np(&attr, sizeof(reported), (const cpu_set_t *)&reported);
	return reported_by(report_cpu, &attr) != (int)cpus[1];
}

static void a_thread_with_its_creators_reported_affinity_as_attribute_is_dealt(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(attribute_as_reported), 0);
}

static pthread_barrier_t moment;

/* Reports the CPU of a new thread, after another thread has set this thread's affinity. */
static void *wait_and_create(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&moment);
	pthread_barrier_wait(&moment);
	return (void *)(intptr_t)(only_cpu() * 10000 + reported_by(report_cpu, NULL));
}

static int move_other(void)
{
	const struct tek_mask second = tek__mask_of(cpus[1]);
	pthread_t thread;
	void *reported;

	begin("");
	pthread_barrier_init(&moment, NULL, 2);
	if (pthread_create(&thread, NULL, wait_and_create, NULL))
		return 2;
	pthread_barrier_wait(&moment);
	/* It is there already, but not by the program's word. */
	if (!is_reported(thread, &allowed) || move(thread, &second) ||
	    !is_reported(thread, &second))
		return 3;
	pthread_barrier_wait(&moment);
	pthread_join(thread, &reported);
	return (uintptr_t)reported != cpus[1] * 10000 + cpus[1];
}

static void a_thread_that_is_moved_by_another_thread_hands_that_down(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(move_other), 0);
}

static int stand_down_moved(void)
{
	const struct tek_mask second = tek__mask_of(cpus[1]);

	if (!freopen("/dev/null", "w", stderr))
		return 2;
	begin("");
	if (move(pthread_self(), &second))
		return 3;
	tek__confine("openat");
	return only_cpu() != (int)cpus[1];
}

static void an_affinity_of_the_program_stays_where_tek_stands_down(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(stand_down_moved), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_with_an_affinity_in_its_attributes_keeps_it),
		cmocka_unit_test(a_thread_that_chose_its_affinity_hands_it_down_as_without_tek),
		cmocka_unit_test(the_child_of_a_fork_stays_where_its_parent_chose_to_be),
		cmocka_unit_test(a_thread_that_sets_the_reported_affinity_goes_to_its_place),
		cmocka_unit_test(
			a_thread_with_its_creators_reported_affinity_as_attribute_is_dealt),
		cmocka_unit_test(a_thread_that_is_moved_by_another_thread_hands_that_down),
		cmocka_unit_test(an_affinity_of_the_program_stays_where_tek_stands_down),
	};
	return cmocka_run_group_tests_name("place_affinity", tests, NULL, NULL);
}
