/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread_objects.h"

#include "uthread/once.h"
#include "uthread/spinlock.h"

#include <unwind.h>

static tek_uthread_once_t controls[100];
static atomic_uint runs;
static long long counter;

static void run_slowly(void)
{
	tek_uthread_yield();
	tek_uthread_sleep(100000);
	atomic_fetch_add(&runs, 1);
}

static void *run_all(void *argument)
{
	(void)argument;
	for (unsigned int i = 0; i < 100; i++) {
		CHECK(tek_uthread_once(&controls[i], run_slowly) == 0);
		CHECK(atomic_load(&runs) >= i + 1);
	}
	return NULL;
}

static void run_in_many(void)
{
	run_threads(15, run_all);
	CHECK(atomic_load(&runs) == 100);
}

static void a_routine_runs_once_and_everybody_waits_for_it(void **state)
{
	(void)state;
	in_all_engines(run_in_many);
}

/* ---- a routine that does not come back ---- */

/* 32-bit ARM's unwinder has other types; its compilers pass exception classes in different ways. */
#if defined(__arm__)

static void a_routine_that_is_unwound_has_not_run(void **state)
{
	(void)state;
	print_message("# needs an unwinder with the types of other processors\n");
	skip();
}

#else

static struct _Unwind_Exception unwinding;

static _Unwind_Reason_Code stop_at_start(int version, _Unwind_Action actions,
					 _Unwind_Exception_Class class,
					 struct _Unwind_Exception *exception,
					 struct _Unwind_Context *context, void *argument)
{
	(void)version, (void)class, (void)exception, (void)argument;
	/* The frame of leave_routine() is the one that ends at `argument`. */
	if (actions & _UA_END_OF_STACK || _Unwind_GetCFA(context) > (uintptr_t)argument)
		tek_uthread_exit(NULL);
	return _URC_NO_REASON;
}

static uintptr_t start_of_thread;

static void leave(void)
{
	_Unwind_ForcedUnwind(&unwinding, stop_at_start, (void *)start_of_thread);
}

static void *run_and_leave(void *argument)
{
	start_of_thread = (uintptr_t)__builtin_frame_address(0);
	tek_uthread_once(argument, leave);
	return NULL;
}

static void *run_later(void *argument)
{
	tek_uthread_once(argument, run_slowly);
	return NULL;
}

static void leave_and_run(void)
{
	end_of(begin(run_and_leave, &controls[0]));
	CHECK(controls[0] == 0);
	end_of(begin(run_later, &controls[0]));
	CHECK(atomic_load(&runs) == 1);
}

static void a_routine_that_is_unwound_has_not_run(void **state)
{
	(void)state;
	in_all_engines(leave_and_run);
}

#endif

/* ---- fork ---- */

static void fork_inside(void)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child > 0)
		return;
	tek_ut__once_after_fork();
	/* This thread is in it still; for other threads of the child it has not run. */
	atomic_int control = controls[0];
	tek_ut__once(&control, run_slowly);
	CHECK(atomic_load(&runs) == 1 && tek_ut__once_is_done(&control));
	_exit(0);
}

static void a_routine_that_ran_while_the_process_forked_has_not_run_in_the_child(void **state)
{
	int status;

	(void)state;
	controls[0] = 0;
	tek_ut__once((atomic_int *)&controls[0], fork_inside);
	assert_true(wait(&status) > 0);
	assert_int_equal(status, 0);
}

/* ---- spin locks, which have no native API ---- */

static tek_spinlock spinlock = TEK_SPINLOCK_FREE;

static void *count_spinning(void *argument)
{
	for (int i = 0; i < 1000; i++) {
		tek_ut__spinlock_lock(&spinlock);
		long long seen = counter;
		if (i % 100 == (int)(uintptr_t)argument)
			tek_uthread_yield();
		counter = seen + 1;
		tek_ut__spinlock_unlock(&spinlock);
	}
	return NULL;
}

static void *hold_with_low_priority(void *argument)
{
	tek_ut__spinlock_lock(&spinlock);
	atomic_store(&runs, 1);
	work(3000000);
	tek_ut__spinlock_unlock(&spinlock);
	return argument;
}

static void count_with_spin_locks(void)
{
	run_threads(10, count_spinning);
	CHECK(counter == 10000);
}

/* Yielding does not help: the holder has a lower priority than the waiter. */
static void wait_for_low_priority(void)
{
	struct tek_uthread_attributes low = {.has_priority = 1, .priority = 1};
	tek_uthread_t thread;

	tek_uthread_set_priority(tek_uthread_self(), 50);
	CHECK(tek_uthread_create(&thread, &low, hold_with_low_priority, NULL) == 0);
	WAIT_UNTIL(atomic_load(&runs));
	tek_ut__spinlock_lock(&spinlock);
	tek_ut__spinlock_unlock(&spinlock);
	end_of(thread);
}

static void a_spin_lock_lets_its_holder_run(void **state)
{
	(void)state;
	in_all_engines(count_with_spin_locks);
	in_engine("workers=1,sched=fifo", wait_for_low_priority);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_routine_runs_once_and_everybody_waits_for_it),
		cmocka_unit_test(a_routine_that_is_unwound_has_not_run),
		cmocka_unit_test(
			a_routine_that_ran_while_the_process_forked_has_not_run_in_the_child),
		cmocka_unit_test(a_spin_lock_lets_its_holder_run),
	};
	return cmocka_run_group_tests_name("uthread once", tests, NULL, NULL);
}
