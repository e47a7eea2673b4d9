/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads go on where a tick takes longer than a quantum: on a slow device, in a debugger. */
#include "uthread_support.h"

#include "uthread/tick.h"
#include "uthread/worker.h"

#include <stdatomic.h>

#define TICK_NS 200000 /* more than each quantum below */

static tek_tick_handler *engines_handler;

static void take_long(void)
{
	const uint64_t began = tek__now(CLOCK_MONOTONIC);

	while (tek__now(CLOCK_MONOTONIC) - began < TICK_NS)
		;
}

static void begin_late(siginfo_t *info, void *context)
{
	take_long();
	engines_handler(info, context);
}

static void return_late(siginfo_t *info, void *context)
{
	engines_handler(info, context);
	take_long();
}

static void make_ticks_slow(tek_tick_handler *handler)
{
	engines_handler = tek_ut__tick_handler();
	CHECK(engines_handler);
	tek_ut__tick_set_handler(handler);
}

static void *compute(void *argument)
{
	volatile unsigned int sum = 0;

	for (unsigned int i = 0; i < 2000000; i++)
		sum += i;
	(void)sum;
	return argument;
}

static void *compute_in_two(void *argument)
{
	struct tek_uthread *one = spawn(compute, NULL), *other = spawn(compute, NULL);

	compute(NULL);
	join(one);
	join(other);
	return argument;
}

static void compute_and_join(void)
{
	struct tek_uthread *threads[4];

	for (uintptr_t i = 0; i < 4; i++)
		threads[i] = spawn(compute_in_two, (void *)i);
	for (uintptr_t i = 0; i < 4; i++)
		CHECK(join(threads[i]) == (void *)i);
}

static void with_ticks_that_begin_late(void)
{
	make_ticks_slow(begin_late);
	compute_and_join();
}

static void with_ticks_that_return_late(void)
{
	make_ticks_slow(return_late);
	compute_and_join();
}

static atomic_uint slow_ticks, short_ticks;

/* The first ones take long. */
static void begin_late_at_first(siginfo_t *info, void *context)
{
	enum { SLOW_TICKS = 100 };

	if (atomic_load(&slow_ticks) < SLOW_TICKS) {
		atomic_fetch_add(&slow_ticks, 1);
		for (int i = 0; i < 10; i++)
			take_long();
	} else {
		atomic_fetch_add(&short_ticks, 1);
	}
	engines_handler(info, context);
}

static uint64_t least_interval(void)
{
	return atomic_load(&tek_ut__workers[0].least_interval);
}

static void *compute_until_stopped(void *stop)
{
	while (!atomic_load((atomic_bool *)stop))
		;
	return stop;
}

static void with_ticks_that_become_short(void)
{
	enum { MOST_SHORT_TICKS = 64 };
	atomic_bool stop = false;
	struct tek_uthread *thread = spawn(compute_until_stopped, &stop);

	atomic_store(&slow_ticks, 0);
	atomic_store(&short_ticks, 0);
	make_ticks_slow(begin_late_at_first);
	uint64_t lengthened = 0;
	while (!atomic_load(&short_ticks))
		lengthened = least_interval() > lengthened ? least_interval() : lengthened;
	while (atomic_load(&short_ticks) < MOST_SHORT_TICKS && least_interval() > lengthened / 2)
		;
	CHECK(lengthened > 10 * TICK_NS);
	CHECK(least_interval() <= lengthened / 2);
	atomic_store(&stop, true);
	join(thread);
}

/* All that preempt by a quantum, with one worker and with several. */
static const char *const engines[] = {
	"workers=1,quantum=50us",
	"workers=1,quantum=150us,sched=mlfq",
	"workers=1,quantum=50us,sched=psjf",
	"workers=1,quantum=50us,sched=steal",
	"workers=1,quantum=50us,sched=fifo",
	"workers=3,quantum=50us",
	"workers=3,quantum=150us,sched=mlfq",
	"workers=3,quantum=50us,sched=psjf",
	"workers=3,quantum=50us,sched=steal",
	"workers=3,quantum=50us,sched=fifo",
	"workers=1,quantum=50us,preempt=klt",
	"workers=3,quantum=50us,preempt=klt",
	"own:workers=1,quantum=50us",
	"own:workers=3,quantum=50us",
};

static void in_all_engines(void (*body)(void))
{
	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
		with_engine(engines[i], body);
}

static void threads_go_on_where_ticks_begin_late(void **state)
{
	(void)state;
	in_all_engines(with_ticks_that_begin_late);
}

static void threads_go_on_where_ticks_return_late(void **state)
{
	(void)state;
	in_all_engines(with_ticks_that_return_late);
}

static void a_quantum_is_no_longer_than_ticks_need(void **state)
{
	(void)state;
	with_engine("workers=1,quantum=50us", with_ticks_that_become_short);
	with_engine("workers=1,quantum=50us,preempt=klt", with_ticks_that_become_short);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_go_on_where_ticks_begin_late),
		cmocka_unit_test(threads_go_on_where_ticks_return_late),
		cmocka_unit_test(a_quantum_is_no_longer_than_ticks_need),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
