/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "engine_support.h"

#include <errno.h>
#include <sys/syscall.h>

static bool all_have_turned(const volatile unsigned long *iterations, int count)
{
	for (int i = 0; i < count; i++)
		if (iterations[i] == 0)
			return false;
	return true;
}

static void spin_together(void)
{
	static volatile unsigned long iterations[6];
	struct tek_uthread *threads[6];

	for (int i = 0; i < 6; i++)
		threads[i] = spawn(spin, (void *)&iterations[i]);
	sleep_ms(300);
	/* On a busy machine a worker may have had no CPU in that time. */
	for (int i = 0; i < 1000 && !all_have_turned(iterations, 6); i++)
		sleep_ms(10);
	atomic_store(&stop, true);
	for (int i = 0; i < 6; i++) {
		join(threads[i]);
		/* Under fifo each worker runs one of them until it ends. */
		if (tek_ut__sched != &tek_ut__sched_fifo)
			CHECK(iterations[i] > 0);
	}
}

static void spinners_are_preempted(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++) {
		if (!strstr(engines[i], "fifo")) /* which does not preempt among equals */
			with_engine(engines[i], spin_together);
	}
}

/* One waits for a flag that the other one sets: neither gives way by itself. */
static void *wait_for_flag(void *argument)
{
	while (!atomic_load((atomic_bool *)argument))
		;
	return NULL;
}

static void *set_flag(void *argument)
{
	atomic_store((atomic_bool *)argument, true);
	return NULL;
}

static void spin_for_a_flag(void)
{
	static atomic_bool flag;
	struct tek_uthread *waits = spawn(wait_for_flag, &flag);
	struct tek_uthread *sets = spawn(set_flag, &flag);
	join(waits);
	join(sets);
}

static void a_thread_that_spins_for_a_flag_lets_the_one_run_that_sets_it(void **state)
{
	(void)state;
	with_engine("workers=1", spin_for_a_flag);
	with_engine("workers=1,preempt=klt", spin_for_a_flag);
}

static void *nap(void *argument)
{
	sleep_ms((unsigned int)(uintptr_t)argument);
	return NULL;
}

static void sleep_long(void)
{
	uint64_t begin = tek__now(CLOCK_MONOTONIC);
	struct tek_uthread *threads[100];

	for (int i = 0; i < 100; i++)
		threads[i] = spawn(nap, (void *)200);
	for (int i = 0; i < 100; i++)
		join(threads[i]);
	uint64_t took = tek__now(CLOCK_MONOTONIC) - begin;
	CHECK(took >= 200000000);
	CHECK(took < 5000000000); /* one after the other, on each of three workers: 6.7 s */
}

static void sleepers_do_not_hold_each_other_up(void **state)
{
	(void)state;
	with_all_engines(sleep_long);
}

/* Held up in the kernel, by a call that the engine does not know. */
static void *read_pipe(void *argument)
{
	char byte;
	long got;
	do {
		got = syscall(SYS_read, *(int *)argument, &byte, 1);
	} while (got < 0 && errno == EINTR);
	CHECK(got == 1);
	atomic_fetch_add(&count, 1);
	return NULL;
}

static void *write_pipe(void *argument)
{
	CHECK(syscall(SYS_write, *(int *)argument, "", 1) == 1);
	return NULL;
}

static void hold_up(void)
{
	int ends[2];

	CHECK(pipe(ends) == 0);
	struct tek_uthread *reads = spawn(read_pipe, &ends[0]);
	struct tek_uthread *writes = spawn(write_pipe, &ends[1]);
	join(reads);
	join(writes);
	CHECK(atomic_load(&count) == 1);
}

static void a_thread_that_is_held_up_in_the_kernel_does_not_hold_up_the_other_ones(void **state)
{
	(void)state;
	with_engine("workers=1", hold_up);
	with_engine("workers=1,preempt=klt,quantum=1ms", hold_up);
	with_engine("workers=2,quantum=1ms", hold_up);
	with_engine("own:workers=1,quantum=1ms", hold_up);
}

static unsigned long order[8];

static void *note_rounds(void *argument)
{
	for (int i = 0; i < 2; i++) {
		order[atomic_fetch_add(&count, 1)] = (unsigned long)(uintptr_t)argument;
		yield_once();
	}
	return NULL;
}

static void alternate(void)
{
	struct tek_uthread *threads[3];

	for (uintptr_t i = 0; i < 3; i++)
		threads[i] = spawn(note_rounds, (void *)i);
	for (int i = 0; i < 3; i++)
		join(threads[i]);
	for (unsigned long i = 0; i < 6; i++)
		CHECK(order[i] == i % 3);
}

static void *yield_until_asked(void *reported)
{
	while (!atomic_load((atomic_bool *)reported))
		yield_once();
	return NULL;
}

static void sleep_beside_one_that_yields(void)
{
	static atomic_bool reported;
	struct tek_uthread *thread = spawn(yield_until_asked, &reported);

	for (int i = 0; i < 5; i++)
		sleep_ms(1);
	atomic_store(&reported, true);
	join(thread);
}

static void a_thread_that_yields_all_the_time_holds_up_no_sleeper(void **state)
{
	(void)state;
	with_engine("preempt=off", sleep_beside_one_that_yields);
	with_engine("", sleep_beside_one_that_yields);
	with_engine("workers=2,preempt=off", sleep_beside_one_that_yields);
}

static void a_thread_that_yields_goes_to_the_end_of_the_queue(void **state)
{
	(void)state;
	with_engine("workers=1,preempt=off", alternate);
}

static void *note_once(void *argument)
{
	order[atomic_fetch_add(&count, 1)] = (unsigned long)(uintptr_t)argument;
	return NULL;
}

static void run_critical_ones(void)
{
	const struct tek_uthread_creation low = {.critical = true};
	const struct tek_uthread_creation high = {
		.critical = true, .has_priority = true, .priority = 9};
	struct tek_uthread *threads[3];

	tek_ut__enter(); /* so that all are ready before one of them runs */
	threads[0] = spawn(note_once, (void *)2);
	threads[1] = spawn_with(&low, note_once, (void *)1);
	threads[2] = spawn_with(&high, note_once, (void *)0);
	tek_ut__leave();
	for (int i = 0; i < 3; i++)
		join(threads[i]);
	for (unsigned long i = 0; i < 3; i++)
		CHECK(order[i] == i);
}

static void critical_threads_go_first_under_every_scheduler(void **state)
{
	(void)state;
	with_engine("workers=1,sched=rr", run_critical_ones);
	with_engine("workers=1,sched=mlfq", run_critical_ones);
	with_engine("workers=1,sched=psjf", run_critical_ones);
	with_engine("workers=1,sched=fifo", run_critical_ones);
	with_engine("workers=1,sched=steal", run_critical_ones);
}

static volatile unsigned long in_section;

static void *stay_in_section(void *argument)
{
	(void)argument;
	tek_ut__enter();
	uint64_t end = tek__now(CLOCK_MONOTONIC) + 50000000;
	in_section = 1;
	while (tek__now(CLOCK_MONOTONIC) < end)
		;
	in_section = 0;
	tek_ut__leave();
	return NULL;
}

static void *examine_section(void *argument)
{
	(void)argument;
	CHECK(!in_section);
	return NULL;
}

static void defer(void)
{
	struct tek_uthread *stays = spawn(stay_in_section, NULL);
	struct tek_uthread *examinations = spawn(examine_section, NULL);
	join(stays);
	join(examinations);
}

static void nobody_runs_on_the_worker_while_preemption_is_deferred(void **state)
{
	(void)state;
	with_engine("workers=1,quantum=1ms", defer);
	with_engine("workers=1,quantum=1ms,preempt=klt", defer);
}

static void *fork_and_wait(void *argument)
{
	tek_ut__enter();
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		tek_ut__engine_after_fork();
		tek_ut__leave();
		create_and_join();
		_exit(7);
	}
	tek_ut__leave();
	int status;
	while (waitpid(child, &status, 0) < 0)
		CHECK(errno == EINTR);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	return argument;
}

static void fork_in_a_thread(void)
{
	static volatile unsigned long iterations;
	struct tek_uthread *beside = spawn(spin, (void *)&iterations);
	join(spawn(fork_and_wait, NULL));
	atomic_store(&stop, true);
	join(beside);
}

static void the_child_of_a_fork_goes_on_with_an_engine_of_its_own(void **state)
{
	(void)state;
	if (getenv("TEK_EMULATED")) {
		print_message("# needs a kernel, and not qemu-user\n");
		skip();
	}
	with_engine("workers=1", fork_in_a_thread);
	with_engine("workers=2,quantum=1ms", fork_in_a_thread);
	with_engine("workers=2,sched=steal,quantum=1ms", fork_in_a_thread);
	with_engine("own:workers=2,quantum=1ms", fork_in_a_thread);
}

static _Thread_local int own_value;

static void *keep_a_value(void *argument)
{
	int value = (int)(uintptr_t)argument;

	CHECK(own_value == 0);
	own_value = value;
	errno = value;
	for (int i = 0; i < 200; i++) {
		free(malloc((size_t)value * 16));
		yield_once();
		CHECK(own_value == value);
		CHECK(errno == value);
	}
	return NULL;
}

static void keep_values(void)
{
	struct tek_uthread *threads[50];

	for (int round = 0; round < 10; round++) {
		for (uintptr_t i = 0; i < 50; i++)
			threads[i] = spawn(keep_a_value, (void *)(i + 1));
		for (int i = 0; i < 50; i++)
			join(threads[i]);
	}
	CHECK(own_value == 0);
}

static void each_thread_has_thread_local_variables_of_its_own(void **state)
{
	(void)state;
	with_engine("own:workers=1,quantum=200us", keep_values);
	with_engine("own:workers=3,quantum=200us", keep_values);
	with_engine("own:workers=2,sched=steal,preempt=klt,quantum=1ms", keep_values);
}

static void refuse(const char *text)
{
	struct tek_engine_options options = tek_ut__engine_defaults();
	assert_non_null(tek_ut__engine_option(&options, text, strlen(text)));
}

static void options_that_make_no_sense_are_refused(void **state)
{
	(void)state;
	refuse("");
	refuse("workers=0");
	refuse("workers=257");
	refuse("workers=99999999999999999999999");
	refuse("workers");
	refuse("quantum=5");
	refuse("quantum=49us");
	refuse("quantum=18446744073709551615s");
	refuse("sched=cfs");
	refuse("preempt=");
	refuse("stack=1K");
	refuse("pool=-1");
	refuse("pin=");
	refuse("pin=1:");
	refuse("pin=1:x");
	refuse("pin=1024");
	refuse("pin=-1");
	refuse("no");
}

static void options_configure_the_whole_engine(void **state)
{
	(void)state;
	struct tek_engine_options options = tek_ut__engine_defaults();
	tek_ut__engine_parse(&options,
			     "workers=4,,sched=psjf,quantum=50us,preempt=klt,stack=1M,pin,"
			     "lock=object,promote=7,pool=3,trace=a,b",
			     option_is_wrong);
	assert_int_equal(options.workers, 4);
	assert_string_equal(options.sched->name, "psjf");
	assert_int_equal(options.quantum_ns, 50000);
	assert_int_equal(options.preempt, TEK_PREEMPT_KLT);
	assert_int_equal(options.stack_bytes, 1 << 20);
	assert_true(options.pin);
	assert_int_equal(options.lock, TEK_LOCK_OBJECT);
	assert_int_equal(options.promote_quanta, 7);
	assert_int_equal(options.pool, 3);
	assert_string_equal(options.trace, "a,b");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spinners_are_preempted),
		cmocka_unit_test(a_thread_that_spins_for_a_flag_lets_the_one_run_that_sets_it),
		cmocka_unit_test(sleepers_do_not_hold_each_other_up),
		cmocka_unit_test(
			a_thread_that_is_held_up_in_the_kernel_does_not_hold_up_the_other_ones),
		cmocka_unit_test(a_thread_that_yields_all_the_time_holds_up_no_sleeper),
		cmocka_unit_test(a_thread_that_yields_goes_to_the_end_of_the_queue),
		cmocka_unit_test(critical_threads_go_first_under_every_scheduler),
		cmocka_unit_test(nobody_runs_on_the_worker_while_preemption_is_deferred),
		cmocka_unit_test(the_child_of_a_fork_goes_on_with_an_engine_of_its_own),
		cmocka_unit_test(each_thread_has_thread_local_variables_of_its_own),
		cmocka_unit_test(options_that_make_no_sense_are_refused),
		cmocka_unit_test(options_configure_the_whole_engine),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
