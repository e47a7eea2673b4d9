/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Condition variables of lib/sync, with an engine of this test's own: its threads wake each other slowly. */
#include "sync_crowd.h"
#include "watchdog.h"

#include "sync/cond.h"

static struct tek_cond cond;
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
	tek__cond_signal(&cond);
	return unused;
}

/* Its stack is another's then. */
static void a_waiter_comes_out_when_the_one_who_wakes_it_has_let_it_go(void **state)
{
	struct tek_cond_waiter waiter;

	(void)state;
	tek__sync_host = &slow;
	tek__cond_enter(&cond, &waiter);
	pthread_t other = start(signal_it, NULL);
	assert_int_equal(tek__cond_sleep(&cond, &waiter, TEK_FOR_EVER), 0);
	memset(&waiter, 0, sizeof(waiter));
	assert_int_equal(atomic_load(&woken), 1);
	result_of(other);
	for (size_t i = 0; i < sizeof(waiter); i++)
		assert_int_equal(((char *)&waiter)[i], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_waiter_comes_out_when_the_one_who_wakes_it_has_let_it_go),
	};
	start_watchdog();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
