/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* When threads of greater and lesser priorities run under the scheduler `fifo`. */
#include "fairness_support.h"

#define URGENT_WAKES 2000
#define QUANTUM_NS (10000 * MS)

static struct {
	struct tek_waiter waiter;
	atomic_bool waits;
	atomic_uint runs;
} urgent;

static void *be_urgent(void *argument)
{
	(void)argument;
	for (unsigned int i = 0; i < URGENT_WAKES; i++) {
		tek_ut__waiter_init(&urgent.waiter);
		atomic_store(&urgent.waits, true);
		CHECK(tek_ut__wait(&urgent.waiter, NULL, TEK_WAITS_OTHER) == TEK_WOKEN);
		atomic_fetch_add(&urgent.runs, 1);
	}
	return NULL;
}

static struct tek_uthread *spawn_at(signed char priority, void *(*routine)(void *), void *argument)
{
	const struct tek_uthread_creation request = {.has_priority = true, .priority = priority};
	return spawn_with(&request, routine, argument);
}

static void wake_urgent(void)
{
	CHECK(atomic_exchange(&urgent.waits, false));
	tek_ut__enter();
	CHECK(tek_ut__wake(&urgent.waiter, TEK_WOKEN));
	tek_ut__leave();
}

/* The first thread has priority 0, so the other one runs whenever it is ready. */
static void wake_a_greater_one(void)
{
	struct tek_uthread *thread = spawn_at(50, be_urgent, NULL);

	for (unsigned int i = 0; i < URGENT_WAKES; i++) {
		CHECK(atomic_load(&urgent.runs) == i);
		wake_urgent();
		CHECK(atomic_load(&urgent.runs) == i + 1);
	}
	join(thread);
}

static void fifo_runs_a_greater_priority_before_its_waker_goes_on(void **state)
{
	(void)state;
	static const char *const locks[] = {"sched=fifo,lock=giant", "sched=fifo,lock=worker",
					    "sched=fifo,lock=object"};
	for (size_t i = 0; i < sizeof(locks) / sizeof(locks[0]); i++)
		with_engine(locks[i], wake_a_greater_one);
}

static void *spin_until_stopped(void *argument)
{
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		;
	return argument;
}

/*
 * Threads are dealt to the workers in turn, beginning with the second worker.  The first thread is
 * on the first worker.
 */
static void wake_a_greater_one_elsewhere(void)
{
	const uint64_t began = tek__now(CLOCK_MONOTONIC);
	struct tek_uthread *spinners[4], *thread;

	atomic_store(&stop, false);
	for (int i = 0; i < 4; i++)
		spinners[i] = spawn_at(i == 2, spin_until_stopped, NULL);
	thread = spawn_at(50, be_urgent, NULL);
	for (unsigned int i = 0; i < URGENT_WAKES; i++) {
		while (!atomic_load(&urgent.waits))
			;
		uint64_t woken_at = tek__now(CLOCK_MONOTONIC);
		wake_urgent();
		while (atomic_load(&urgent.runs) <= i)
			;
		uint64_t now = tek__now(CLOCK_MONOTONIC);
		CHECK(now - woken_at < QUANTUM_NS / 2);
		if (now - began > ENOUGH_NS)
			_exit(0); /* on a slow machine */
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 4; i++)
		join(spinners[i]);
	join(thread);
}

/* With quanta so long that no tick helps. */
static void fifo_runs_a_greater_priority_at_once_on_its_own_worker(void **state)
{
	(void)state;
	need_ticks();
	static const char *const locks[] = {"workers=2,sched=fifo,quantum=10s,lock=giant",
					    "workers=2,sched=fifo,quantum=10s,lock=worker",
					    "workers=2,sched=fifo,quantum=10s,lock=object"};
	for (size_t i = 0; i < sizeof(locks) / sizeof(locks[0]); i++)
		with_engine(locks[i], wake_a_greater_one_elsewhere);
}

static atomic_uint order[3];
static atomic_uint orders;

static void *take_a_number(void *argument)
{
	for (int i = 0; i < 100; i++)
		yield_once();
	atomic_store((atomic_uint *)argument, atomic_fetch_add(&orders, 1));
	return NULL;
}

static void *spawn_three(void *argument)
{
	struct tek_uthread *three[3];

	(void)argument;
	three[0] = spawn_at(10, take_a_number, &order[0]);
	three[1] = spawn_at(30, take_a_number, &order[1]);
	three[2] = spawn_at(20, take_a_number, &order[2]);
	CHECK(atomic_load(&orders) == 0);
	for (int i = 0; i < 3; i++)
		join(three[i]);
	return NULL;
}

static void yield_to_lesser_ones(void)
{
	join(spawn_at(40, spawn_three, NULL));
	CHECK(atomic_load(&order[1]) == 0);
	CHECK(atomic_load(&order[2]) == 1);
	CHECK(atomic_load(&order[0]) == 2);
}

static void fifo_runs_no_lesser_priority_although_a_greater_one_yields(void **state)
{
	(void)state;
	with_engine("sched=fifo", yield_to_lesser_ones);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fifo_runs_a_greater_priority_before_its_waker_goes_on),
		cmocka_unit_test(fifo_runs_a_greater_priority_at_once_on_its_own_worker),
		cmocka_unit_test(fifo_runs_no_lesser_priority_although_a_greater_one_yields),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
