/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The Fast Region: nesting, timed stays, marked threads that follow, and the guard. */
#include "support.h"

#include <time.h>

/* A test is repeated this many times if another load takes the CPU: that may be for almost 1 s. */
enum { ATTEMPTS = 10 };

static uint64_t ms_by(clockid_t clock)
{
	struct timespec ts;
	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static uint64_t now_ms(void)
{
	return ms_by(CLOCK_MONOTONIC);
}

static void critical_sections_nest(void **state)
{
	(void)state;
	need_real_time();
	assert_int_equal(tek_critical_enter(), 0);
	assert_int_equal(tek_critical_enter(), 0);
	assert_int_equal(tek_critical_leave(), 0);
	assert_true(is_fast(0));
	assert_int_equal(tek_critical_leave(), 0);
	assert_false(is_fast(0));
}

static void leaving_without_having_entered_is_einval(void **state)
{
	(void)state;
	assert_int_equal(tek_critical_leave(), EINVAL);
}

static void a_timed_stay_ends_by_itself_and_can_only_be_made_longer(void **state)
{
	(void)state;
	need_real_time();
	assert_int_equal(tek_critical_for(0), EINVAL);
	bool in_time = false;
	for (int attempt = 0; !in_time && attempt < ATTEMPTS; attempt++) {
		const uint64_t start = now_ms();
		assert_int_equal(tek_critical_for(300000000), 0);
		assert_int_equal(tek_critical_for(1000000), 0);
		sleep_ms(100);
		const bool fast = is_fast(0);
		in_time = now_ms() - start < 300;
		if (in_time)
			assert_true(fast);
		for (int i = 0; i < 300 && is_fast(0); i++)
			sleep_ms(10);
		assert_false(is_fast(0));
	}
	assert_true(in_time);
}

/* Cmocka can end a test only in its own thread, so this thread reports its observation. */
static void *stay_for_ever(void *fast)
{
	bool *was_fast = fast;

	if (tek_critical_for(UINT64_MAX))
		return NULL;
	sleep_ms(100);
	was_fast[0] = is_fast(0);
	/* Another policy does not end it: the thread asked for the time. Its end would. */
	set_other(pthread_self());
	was_fast[1] = is_fast(0);
	return NULL;
}

static void a_timed_stay_for_ever_ends_with_its_thread(void **state)
{
	pthread_t thread;
	bool was_fast[2] = {false, false};

	(void)state;
	need_real_time();
	assert_int_equal(pthread_create(&thread, NULL, stay_for_ever, was_fast), 0);
	pthread_join(thread, NULL);
	assert_true(was_fast[0]);
	assert_true(was_fast[1]);
	assert_false(is_fast(0));
}

static void marking_a_thread_changes_nothing_by_itself(void **state)
{
	struct waiter waiter;

	(void)state;
	waiter_start(&waiter, NULL);
	assert_int_equal(tek_thread_mark(waiter.thread, 1), 0);
	assert_false(is_fast(waiter.tid));
	assert_int_equal(tek_thread_mark(waiter.thread, 2), EINVAL);
	waiter_end(&waiter);
}

static void marked_threads_of_its_group_follow_a_request(void **state)
{
	struct waiter same, other, unmarked;

	(void)state;
	need_real_time();
	waiter_start(&same, NULL);
	waiter_start(&other, NULL);
	waiter_start(&unmarked, NULL);
	tek_thread_mark(same.thread, 1);
	tek_thread_mark(other.thread, 1);
	assert_int_equal(tek_thread_set_group(other.thread, TEK_SERVICE), 0);

	assert_int_equal(set_tek(pthread_self(), -3), 0);
	assert_true(is_fast(same.tid));
	assert_int_equal(kernel_rt_priority(same.tid), 32);
	assert_false(is_fast(other.tid));
	assert_false(is_fast(unmarked.tid));

	/* Into the group, out of the group, marked late, unmarked. */
	tek_thread_set_group(other.thread, TEK_NORMAL);
	assert_true(is_fast(other.tid));
	tek_thread_set_group(other.thread, TEK_URGENT);
	assert_false(is_fast(other.tid));
	tek_thread_mark(unmarked.thread, 1);
	assert_true(is_fast(unmarked.tid));
	tek_thread_mark(unmarked.thread, 0);
	assert_false(is_fast(unmarked.tid));

	/* The request ends. */
	set_other(pthread_self());
	assert_false(is_fast(same.tid));
	waiter_end(&same);
	waiter_end(&other);
	waiter_end(&unmarked);
}

static void follow_marked_can_be_switched_off_and_on(void **state)
{
	struct waiter waiter;

	(void)state;
	need_real_time();
	waiter_start(&waiter, NULL);
	tek_thread_mark(waiter.thread, 1);
	assert_int_equal(tek_follow_marked(0), 0);
	assert_int_equal(tek_critical_enter(), 0);
	assert_false(is_fast(waiter.tid));
	assert_int_equal(tek_follow_marked(1), 0);
	assert_true(is_fast(waiter.tid));
	assert_int_equal(tek_follow_marked(0), 0);
	assert_false(is_fast(waiter.tid));
	assert_int_equal(tek_follow_marked(1), 0);
	assert_int_equal(tek_follow_marked(7), EINVAL);
	tek_critical_leave();
	waiter_end(&waiter);
}

static void a_group_is_inherited_and_read_back(void **state)
{
	struct waiter waiter;
	enum tek_group group;

	(void)state;
	assert_int_equal(tek_thread_set_group(pthread_self(), TEK_BACKGROUND), 0);
	waiter_start(&waiter, NULL);
	assert_int_equal(tek_thread_get_group(waiter.thread, &group), 0);
	assert_int_equal(group, TEK_BACKGROUND);
	assert_int_equal(tek_thread_set_group(waiter.thread, (enum tek_group)4), EINVAL);
	assert_int_equal(tek_thread_set_group(pthread_self(), TEK_NORMAL), 0);
	waiter_end(&waiter);
}

struct runaway {
	bool expelled;
	uint64_t after_ms;
	uint64_t request_after_ms; /* at most, since it was expelled */
	int next_request;
	int request_after_ban;
};

static void *run_away(void *argument)
{
	struct runaway *result = argument;
	uint64_t start = now_ms(), was_fast = start;

	if (tek_critical_enter())
		return NULL;
	for (uint64_t now = start; is_fast(0) && now - start < 3000; now = now_ms())
		was_fast = now;
	result->expelled = !is_fast(0);
	result->after_ms = now_ms() - start;
	result->next_request = set_tek(pthread_self(), 0);
	result->request_after_ms = now_ms() - was_fast;
	sleep_ms(400);
	result->request_after_ban = set_tek(pthread_self(), 0);
	tek_critical_leave();
	set_other(pthread_self());
	return NULL;
}

static void a_runaway_thread_is_sent_back_and_may_ask_again_one_window_later(void **state)
{
	struct runaway result = {0};
	pthread_t thread;

	(void)state;
	need_real_time();
	assert_int_equal(tek_set_budget(150000000, 300000000), 0);
	bool in_time = false;
	for (int attempt = 0; !in_time && attempt < ATTEMPTS; attempt++) {
		assert_int_equal(pthread_create(&thread, NULL, run_away, &result), 0);
		pthread_join(thread, NULL);
		assert_true(result.expelled);
		assert_true(result.after_ms >= 140);
		in_time = result.request_after_ms < 300;
		if (in_time)
			assert_int_equal(result.next_request, EDQUOT);
		assert_int_equal(result.request_after_ban, 0);
	}
	assert_true(in_time);
	assert_int_equal(tek_set_budget(800000000, 1000000000), 0);
}

static void *hop_in_and_out(void *argument)
{
	struct runaway *result = argument;
	uint64_t start = now_ms();

	while (!result->expelled && now_ms() - start < 3000) {
		result->expelled = tek_critical_enter() == EDQUOT;
		for (uint64_t iteration = now_ms(); now_ms() - iteration < 2;)
			;
		tek_critical_leave();
	}
	return NULL;
}

static void leaving_and_entering_again_does_not_renew_the_budget(void **state)
{
	struct runaway result = {0};
	pthread_t thread;

	(void)state;
	need_real_time();
	assert_int_equal(tek_set_budget(150000000, 300000000), 0);
	assert_int_equal(pthread_create(&thread, NULL, hop_in_and_out, &result), 0);
	pthread_join(thread, NULL);
	assert_true(result.expelled);
	assert_int_equal(tek_set_budget(800000000, 1000000000), 0);
}

/* Of a thread that keeps within its budget, unless it is charged with time of a hypervisor. */
struct stay {
	bool stayed;
	bool disturbed;
};

static void assert_stays(void *(*routine)(void *), uint64_t budget_ns, uint64_t window_ns)
{
	struct stay stay = {.disturbed = true};
	pthread_t thread;

	for (int i = 0; !stay.stayed && stay.disturbed && i < ATTEMPTS; i++) {
		assert_int_equal(tek_set_budget(budget_ns, window_ns), 0);
		stay = (struct stay){0};
		assert_int_equal(pthread_create(&thread, NULL, routine, &stay), 0);
		pthread_join(thread, NULL);
	}
	assert_int_equal(tek_set_budget(800000000, 1000000000), 0);
	if (!stay.stayed && stay.disturbed) {
		print_message("# needs a CPU that nobody takes away\n");
		skip();
	}
	assert_true(stay.stayed);
}

static void *mostly_sleep(void *argument)
{
	struct stay *stay = argument;
	uint64_t too_much = 0;

	if (tek_critical_enter())
		return NULL;
	stay->stayed = true;
	for (uint64_t start = now_ms(); now_ms() - start < 1000;) {
		uint64_t charged = ms_by(CLOCK_THREAD_CPUTIME_ID);
		for (uint64_t iteration = now_ms(); now_ms() - iteration < 5;)
			;
		sleep_ms(20);
		stay->stayed = stay->stayed && is_fast(0);
		charged = ms_by(CLOCK_THREAD_CPUTIME_ID) - charged;
		too_much += charged > 6 ? charged - 6 : 0;
	}
	/* 300 ms have 12 such rounds. */
	stay->disturbed = too_much > 50;
	tek_critical_leave();
	return NULL;
}

static void a_thread_within_its_budget_stays_fast(void **state)
{
	(void)state;
	need_real_time();
	assert_stays(mostly_sleep, 150000000, 300000000);
}

static void *use_up_and_shorten_the_window(void *argument)
{
	struct stay *stay = argument;
	const uint64_t charged = ms_by(CLOCK_THREAD_CPUTIME_ID);

	/* 300 ms of work, then rest: within 80% of a second, and nothing in the last 100 ms. */
	if (tek_critical_enter())
		return NULL;
	for (uint64_t start = now_ms(); now_ms() - start < 300;)
		;
	sleep_ms(200);
	tek_set_budget(50000000, 100000000);
	sleep_ms(150);
	stay->stayed = is_fast(0);
	stay->disturbed = ms_by(CLOCK_THREAD_CPUTIME_ID) - charged > 330;
	tek_critical_leave();
	return NULL;
}

static void a_new_window_begins_when_the_budget_is_set(void **state)
{
	(void)state;
	need_real_time();
	assert_stays(use_up_and_shorten_the_window, 800000000, 1000000000);
}

static void a_budget_must_make_sense(void **state)
{
	(void)state;
	assert_int_equal(tek_set_budget(2, 1), EINVAL);
	assert_int_equal(tek_set_budget(1000, 1000), EINVAL);
	assert_int_equal(tek_set_budget(1, UINT64_MAX), EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(critical_sections_nest),
		cmocka_unit_test(leaving_without_having_entered_is_einval),
		cmocka_unit_test(a_timed_stay_ends_by_itself_and_can_only_be_made_longer),
		cmocka_unit_test(a_timed_stay_for_ever_ends_with_its_thread),
		cmocka_unit_test(marking_a_thread_changes_nothing_by_itself),
		cmocka_unit_test(marked_threads_of_its_group_follow_a_request),
		cmocka_unit_test(follow_marked_can_be_switched_off_and_on),
		cmocka_unit_test(a_group_is_inherited_and_read_back),
		cmocka_unit_test(a_runaway_thread_is_sent_back_and_may_ask_again_one_window_later),
		cmocka_unit_test(leaving_and_entering_again_does_not_renew_the_budget),
		cmocka_unit_test(a_thread_within_its_budget_stays_fast),
		cmocka_unit_test(a_new_window_begins_when_the_budget_is_set),
		cmocka_unit_test(a_budget_must_make_sense),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
