/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The judge of the torture of lifts finds each wrong value in a history, and no other. */
#include "judge.h"

#include "support.h"

static struct step_list list;
static struct event events[4096];
static unsigned int count;
static struct verdict verdict;
static uint64_t clock_ns;

static const struct scheduling other = {.policy = SCHED_OTHER};
static const struct scheduling lifted = {.policy = SCHED_RR, .priority = 28, .reset_on_fork = true};

static void begin_history(const char *steps)
{
	char text[1024];
	FILE *file;

	snprintf(text, sizeof(text), "%s", steps);
	file = fmemopen(text, strlen(text), "r");
	assert_non_null(file);
	assert_true(steps_read(&list, file));
	fclose(file);
	count = 0;
	clock_ns = 5000000000;
}

static struct event *add(enum event_kind kind, unsigned int step)
{
	struct event *event = &events[count++];

	clock_ns += 1000;
	*event = (struct event){.ns = clock_ns,
				.kind = (uint8_t)kind,
				.slot = list.steps[step].slot,
				.step = (uint16_t)step};
	return event;
}

static void perform(unsigned int step, int result)
{
	add(EVENT_BEGIN, step);
	add(EVENT_END, step)->result = result;
}

static void observe(enum event_kind kind, unsigned int slot, struct scheduling scheduling)
{
	struct event *event = add(kind, 0);

	event->slot = (uint8_t)slot;
	event->scheduling = scheduling;
}

static void judge_it(bool may_be_taken_back)
{
	const struct history history = {.list = &list,
					.events = events,
					.count = count,
					.first = other,
					.may_be_taken_back = may_be_taken_back};

	judge(&history, &verdict);
}

static void expect(enum fault_kind kind)
{
	judge_it(false);
	assert_int_equal(verdict.faults, kind != FAULT_NONE);
	if (kind)
		assert_int_equal(verdict.list[0].kind, kind);
}

static void a_thread_at_rest_has_what_it_has_set(void **state)
{
	const struct scheduling idle = {.policy = SCHED_IDLE, .nice = 3};

	(void)state;
	begin_history("1 idle slot 1\n2 nice slot 1 3\n2 other slot 1\n");
	perform(0, 0);
	perform(1, 0);
	perform(2, EPERM);
	observe(EVENT_REST, 1, idle);
	expect(FAULT_NONE);
	observe(EVENT_REST, 1, other);
	expect(FAULT_OWN);
}

static void only_the_last_sample_of_a_thread_at_rest_counts(void **state)
{
	(void)state;
	begin_history("1 unlock\n");
	observe(EVENT_REST, 1, lifted);
	expect(FAULT_OWN);
	observe(EVENT_REST, 1, other);
	expect(FAULT_NONE);
}

static void a_fast_thread_has_the_priority_of_its_own_reasons(void **state)
{
	struct scheduling fast = {.policy = SCHED_RR, .priority = 29, .reset_on_fork = true};

	(void)state;
	begin_history("1 enter\n1 tek slot 1 -20\n1 leave\n1 other slot 1\n");
	perform(0, 0);
	observe(EVENT_REST, 1, fast);
	expect(FAULT_NONE);
	perform(1, 0);
	fast.priority = 49;
	observe(EVENT_REST, 1, fast);
	expect(FAULT_NONE);
	perform(2, 0);
	observe(EVENT_REST, 1, lifted);
	expect(FAULT_OWN);
	perform(3, 0);
	observe(EVENT_REST, 1, other);
	expect(FAULT_NONE);
}

static void a_higher_policy_of_its_own_stays_in_force_in_a_fast_thread(void **state)
{
	const struct scheduling fifo = {.policy = SCHED_FIFO, .priority = 40};

	(void)state;
	begin_history("1 fifo slot 1 40\n1 enter\n");
	perform(0, 0);
	perform(1, 0);
	observe(EVENT_REST, 1, fifo);
	expect(FAULT_NONE);
}

static void what_tekd_gave_may_be_taken_back(void **state)
{
	(void)state;
	begin_history("1 enter\n");
	perform(0, 0);
	observe(EVENT_REST, 1, other);
	expect(FAULT_OWN);
	judge_it(true);
	assert_int_equal(verdict.faults, 0);
	observe(EVENT_REST, 1, lifted);
	judge_it(true);
	assert_int_equal(verdict.faults, 1);
}

static void a_child_begins_with_what_its_creator_has_set(void **state)
{
	(void)state;
	begin_history("1 batch slot 1\n1 enter\n1 fork\n1 create slot 9\n");
	perform(0, 0);
	perform(1, 0);
	add(EVENT_BEGIN, 2);
	add(EVENT_BORN, 2)->scheduling = (struct scheduling){.policy = SCHED_BATCH};
	add(EVENT_END, 2);
	perform(3, 0);
	observe(EVENT_REST, 9, (struct scheduling){.policy = SCHED_BATCH});
	expect(FAULT_NONE);
	add(EVENT_BORN, 2)->scheduling = lifted;
	expect(FAULT_BORN);
}

static void a_child_of_a_creator_with_reset_on_fork_begins_without_its_nice_value(void **state)
{
	(void)state;
	begin_history("1 nice slot 1 -5\n1 reset slot 1\n1 create slot 9\n1 create slot 10\n");
	perform(0, 0);
	perform(1, 0);
	perform(2, 0);
	observe(EVENT_REST, 9, other);
	expect(FAULT_NONE);
	perform(3, 0);
	observe(EVENT_REST, 10, (struct scheduling){.policy = SCHED_OTHER, .nice = -5});
	expect(FAULT_OWN);
}

/* A time in which other threads perform so many steps that no lift may outlive it. */
static void let_time_pass(unsigned int step)
{
	for (int i = 0; i <= LIFT_STEPS; i++)
		perform(step, 0);
	clock_ns += LIFT_NS;
}

/* Thread 1 holds a mutex. Thread 2 is Fast, and waits for the mutex or not. */
static void lift_for_a_time(bool waits)
{
	begin_history("1 lock mutex 0\n2 enter\n2 lock mutex 0\n3 signal cond 0\n");
	perform(0, 0);
	perform(1, 0);
	if (waits)
		add(EVENT_BEGIN, 2);
	observe(EVENT_SAMPLE, 1, lifted);
	let_time_pass(3);
	observe(EVENT_SAMPLE, 1, lifted);
}

static void a_lift_without_a_waiter_ends(void **state)
{
	(void)state;
	lift_for_a_time(true);
	expect(FAULT_NONE);
	assert_int_equal(verdict.lifts, 2);
	lift_for_a_time(false);
	expect(FAULT_LIFT);
	assert_int_equal(verdict.list[0].slot, 1);
}

static void a_waiter_through_another_thread_is_a_waiter(void **state)
{
	(void)state;
	begin_history("1 lock mutex 0\n2 lock mutex 1\n2 lock mutex 0\n3 enter\n3 lock mutex 1\n"
		      "4 signal cond 0\n");
	perform(0, 0);
	perform(1, 0);
	add(EVENT_BEGIN, 2);
	perform(3, 0);
	add(EVENT_BEGIN, 4);
	observe(EVENT_SAMPLE, 1, lifted);
	let_time_pass(5);
	observe(EVENT_SAMPLE, 1, lifted);
	expect(FAULT_NONE);
	add(EVENT_END, 4)->result = ETIMEDOUT;
	observe(EVENT_SAMPLE, 1, lifted);
	let_time_pass(5);
	observe(EVENT_SAMPLE, 1, lifted);
	expect(FAULT_LIFT);
}

static void a_thread_that_has_unlocked_has_no_waiter(void **state)
{
	(void)state;
	begin_history("1 lock mutex 0\n2 enter\n1 unlock\n2 lock mutex 0\n3 signal cond 0\n");
	perform(0, 0);
	perform(1, 0);
	perform(2, 0);
	add(EVENT_BEGIN, 3);
	observe(EVENT_SAMPLE, 1, lifted);
	let_time_pass(4);
	observe(EVENT_SAMPLE, 1, lifted);
	expect(FAULT_LIFT);
}

static void a_thread_is_cancelled_at_cancellation_points_only(void **state)
{
	(void)state;
	begin_history("1 sleep 5\n2 spawn\n");
	add(EVENT_BEGIN, 0);
	add(EVENT_CANCELLED, 0);
	expect(FAULT_NONE);
	add(EVENT_BEGIN, 1);
	add(EVENT_CANCELLED, 1);
	expect(FAULT_CANCEL);
}

static void an_impossible_result_is_a_fault(void **state)
{
	(void)state;
	begin_history("1 timedlock mutex 0 5\n1 unlock\n");
	perform(0, ETIMEDOUT);
	expect(FAULT_NONE);
	perform(1, EPERM);
	expect(FAULT_RESULT);
}

static void an_empty_place_in_the_history_is_left_out(void **state)
{
	(void)state;
	begin_history("1 idle slot 1\n");
	add(EVENT_NONE, 0);
	perform(0, 0);
	observe(EVENT_REST, 1, (struct scheduling){.policy = SCHED_IDLE});
	expect(FAULT_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_at_rest_has_what_it_has_set),
		cmocka_unit_test(only_the_last_sample_of_a_thread_at_rest_counts),
		cmocka_unit_test(a_fast_thread_has_the_priority_of_its_own_reasons),
		cmocka_unit_test(a_higher_policy_of_its_own_stays_in_force_in_a_fast_thread),
		cmocka_unit_test(what_tekd_gave_may_be_taken_back),
		cmocka_unit_test(a_child_begins_with_what_its_creator_has_set),
		cmocka_unit_test(
			a_child_of_a_creator_with_reset_on_fork_begins_without_its_nice_value),
		cmocka_unit_test(a_lift_without_a_waiter_ends),
		cmocka_unit_test(a_waiter_through_another_thread_is_a_waiter),
		cmocka_unit_test(a_thread_that_has_unlocked_has_no_waiter),
		cmocka_unit_test(a_thread_is_cancelled_at_cancellation_points_only),
		cmocka_unit_test(an_impossible_result_is_a_fault),
		cmocka_unit_test(an_empty_place_in_the_history_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
