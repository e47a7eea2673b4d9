/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Condition variables of lib/sync, with an engine of this test: its threads wake up slowly. */
#include "sync_crowd.h"
#include "watchdog.h"

#include "sync/cond.h"

static struct tek_sync_cond cond;
static atomic_int woken;

static void *self(void)
{
	return &woken;
}

static void yield(void)
{
	sched_yield();
}

static int park(struct tek_until until)
{
	(void)until;
	nap(1);
	return 0;
}

static void unpark(void *thread)
{
	(void)thread;
	nap(50);
	atomic_store(&woken, 1);
}

static const struct tek_sync_host slow = {self, yield, park, unpark};

static void *signal_it(void *unused)
{
	tek_sync__cond_signal(&cond);
	return unused;
}

/* Its stack is another's then. */
static void a_waiter_comes_out_when_the_one_that_wakes_it_has_let_it_go(void **state)
{
	struct tek_sync_cond_waiter waiter;

	(void)state;
	tek_sync__host = &slow;
	tek_sync__cond_enter(&cond, &waiter);
	pthread_t other = start(signal_it, NULL);
	assert_int_equal(tek_sync__cond_sleep(&cond, &waiter, TEK_FOR_EVER), 0);
	memset(&waiter, 0, sizeof(waiter));
	assert_int_equal(atomic_load(&woken), 1);
	result_of(other);
	for (size_t i = 0; i < sizeof(waiter); i++)
		assert_int_equal(((char *)&waiter)[i], 0);
}

static atomic_bool destroyed;

static void *destroy_it(void *unused)
{
	const int result = tek_sync__cond_destroy(&cond);

	atomic_store(&destroyed, true);
	return result ? &cond : unused;
}

/* The first waiter may have been cancelled, and other waiters may have waited for its wake-up. */
static void none_is_destroyed_before_its_first_woken_waiter_is_through(void **state)
{
	struct tek_sync_cond_waiter first, second, third;

	(void)state;
	tek_sync__host = on_user_level() ? &slow : NULL;
	for (int is_cancelled = 0; is_cancelled <= 1; is_cancelled++) {
		tek_sync__cond_enter(&cond, &first);
		tek_sync__cond_enter(&cond, &second);
		tek_sync__cond_enter(&cond, &third);
		tek_sync__cond_signal(&cond);
		tek_sync__cond_signal(&cond);
		assert_int_equal(tek_sync__cond_destroy(&cond), EBUSY);
		tek_sync__cond_broadcast(&cond);
		atomic_store(&destroyed, false);
		pthread_t other = start(destroy_it, NULL);
		tek_sync__cond_sleep(&cond, &third, TEK_FOR_EVER);
		tek_sync__cond_sleep(&cond, &second, TEK_FOR_EVER);
		nap(20);
		assert_false(atomic_load(&destroyed));
		if (is_cancelled)
			tek_sync__cond_leave(&cond, &first);
		else
			tek_sync__cond_sleep(&cond, &first, TEK_FOR_EVER);
		assert_null(result_of(other));
	}
}

/* A waiter, and its place in the order of wake-ups. */
struct queued {
	pthread_t thread;
	int priority;
	atomic_bool waits;
	atomic_int came;
};
static atomic_int came;

static void *wait_in_line(void *argument)
{
	struct queued *queued = argument;
	const struct sched_param param = {.sched_priority = queued->priority};
	struct tek_sync_cond_waiter waiter;

	if (queued->priority && sched_setscheduler(0, SCHED_RR, &param))
		return NULL;
	tek_sync__cond_enter(&cond, &waiter);
	atomic_store(&queued->waits, true);
	tek_sync__cond_sleep(&cond, &waiter, TEK_FOR_EVER);
	atomic_store(&queued->came, atomic_fetch_add(&came, 1) + 1);
	return queued;
}

static bool may_be_real_time(void)
{
	const struct sched_param param = {.sched_priority = 5}, none = {0};

	return sched_setscheduler(0, SCHED_RR, &param) == 0 &&
	       sched_setscheduler(0, SCHED_OTHER, &none) == 0;
}

static void the_most_urgent_one_is_woken_first_and_among_equals_the_earliest(void **state)
{
	struct queued queued[] = {{.priority = 0}, {.priority = 2}, {.priority = 0},
				  {.priority = 5}, {.priority = 2}, {.priority = 1}};
	static const int order[] = {3, 1, 4, 5, 0, 2};
	enum { COUNT = sizeof(order) / sizeof(order[0]) };

	(void)state;
	if (on_user_level() || !may_be_real_time()) {
		print_message(on_user_level()
				      ? "# the kernel knows no priorities of user-level threads\n"
				      : "# needs CAP_SYS_NICE\n");
		skip();
	}
	tek_sync__host = NULL;
	for (int i = 0; i < COUNT; i++) {
		queued[i].thread = start(wait_in_line, &queued[i]);
		while (!atomic_load(&queued[i].waits))
			nap(1);
	}
	for (int i = 0; i < COUNT; i++) {
		tek_sync__cond_signal(&cond);
		while (atomic_load(&came) <= i)
			nap(1);
		assert_int_equal(atomic_load(&queued[order[i]].came), i + 1);
	}
	for (int i = 0; i < COUNT; i++)
		result_of(queued[i].thread);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_waiter_comes_out_when_the_one_that_wakes_it_has_let_it_go),
		cmocka_unit_test(none_is_destroyed_before_its_first_woken_waiter_is_through),
		cmocka_unit_test(the_most_urgent_one_is_woken_first_and_among_equals_the_earliest),
	};
	start_watchdog();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
