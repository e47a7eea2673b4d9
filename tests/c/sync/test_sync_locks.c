/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The promises of a lock to its waiters, and the length of their waits: sync_lock_subject.h. */
#include "sync_lock_subject.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

enum { OBJECTS = 500, HELD = 100 };

static void one_of_zeros_is_free(void **state)
{
	(void)state;
	memset(&lock, 0, sizeof(lock));
	for (int i = 0; i < 3; i++) {
		assert_true(subject.try(&lock));
		subject.unlock(&lock);
		subject.lock(&lock);
		subject.unlock(&lock);
	}
}

static void *try_it(void *unused)
{
	(void)unused;
	return (void *)(uintptr_t)(subject.try(&lock) ? 1 : 2);
}

static void it_is_had_by_one_at_a_time(void **state)
{
	(void)state;
	subject.lock(&lock);
	assert_ptr_equal(result_of(start(try_it, NULL)), 2);
	subject.unlock(&lock);
	assert_true(subject.try(&lock));
	assert_ptr_equal(result_of(start(try_it, NULL)), 2);
	subject.unlock(&lock);
}

static void one_thread_alone_has_it_each_time(void **state)
{
	(void)state;
	compete_with(1);
}

static void two_threads_alternate(void **state)
{
	(void)state;
	compete_with(2);
}

static void eight_threads_all_get_it(void **state)
{
	(void)state;
	compete_with(8);
}

static void sixty_four_threads_all_get_it(void **state)
{
	(void)state;
	compete_with(THREADS_MAX);
}

static void a_thread_that_has_it_may_sleep(void **state)
{
	(void)state;
	sleeps_with_it = true;
	compete_with(4);
	sleeps_with_it = false;
}

static atomic_int signals;

static void on_signal(int number)
{
	(void)number;
	atomic_fetch_add_explicit(&signals, 1, memory_order_relaxed);
}

static void signals_at_every_moment_do_no_harm(void **state)
{
	(void)state;
	const struct sigaction action = {.sa_handler = on_signal};
	const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};

	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
	compete_with(4);
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	/* The handler stays: an engine may still have a signal for one of its threads. */
}

static void *hold_it(void *unused)
{
	(void)unused;
	subject.lock(&lock);
	atomic_store(&phase, 1);
	while (atomic_load(&phase) == 1)
		sched_yield();
	subject.unlock(&lock);
	return NULL;
}

static pthread_t let_another_hold_it(void)
{
	atomic_store(&phase, 0);
	pthread_t holder = start(hold_it, NULL);
	while (atomic_load(&phase) != 1)
		sched_yield();
	return holder;
}

static void let_it_go(pthread_t holder)
{
	atomic_store(&phase, 2);
	result_of(holder);
}

static int lock_at(clockid_t clock, struct timespec time)
{
	return subject.lock_until(&lock, (struct tek_until){clock, &time});
}

static void a_thread_that_waits_until_a_time_waits_that_long(void **state)
{
	static const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC};

	(void)state;
	NEEDS_TIMES();
	pthread_t holder = let_another_hold_it();
	for (int i = 0; i < 2; i++) {
		struct timespec now, time = in_ms(clocks[i], 20);
		assert_int_equal(lock_at(clocks[i], time), ETIMEDOUT);
		clock_gettime(clocks[i], &now);
		assert_true(now.tv_sec > time.tv_sec ||
			    (now.tv_sec == time.tv_sec && now.tv_nsec >= time.tv_nsec));
	}
	let_it_go(holder);
	assert_int_equal(lock_at(CLOCK_REALTIME, in_ms(CLOCK_REALTIME, 10000)), 0);
	subject.unlock(&lock);
}

static void a_time_in_the_past_is_over_and_one_that_is_none_is_refused(void **state)
{
	(void)state;
	NEEDS_TIMES();
	/* A caller that gets it at once reads no time. */
	assert_int_equal(lock_at(CLOCK_REALTIME, (struct timespec){0, -1}), 0);
	subject.unlock(&lock);
	assert_int_equal(lock_at(CLOCK_MONOTONIC, (struct timespec){0, 0}), 0);
	subject.unlock(&lock);
	pthread_t holder = let_another_hold_it();
	for (int i = 0; i < 2; i++) {
		const clockid_t clock = i ? CLOCK_REALTIME : CLOCK_MONOTONIC;
		assert_int_equal(lock_at(clock, (struct timespec){0, 0}), ETIMEDOUT);
		assert_int_equal(lock_at(clock, (struct timespec){-5, 0}), ETIMEDOUT);
		assert_int_equal(lock_at(clock, (struct timespec){1, -1}), EINVAL);
		assert_int_equal(lock_at(clock, (struct timespec){1, 1000000000}), EINVAL);
	}
	let_it_go(holder);
}

static void *want_it_for_ten_seconds(void *unused)
{
	(void)unused;
	atomic_store(&inside, 1);
	return (void *)(intptr_t)lock_at(CLOCK_MONOTONIC, in_ms(CLOCK_MONOTONIC, 10000));
}

static void *get_and_give_it(void *unused)
{
	void *result = want_it_for_ten_seconds(unused);
	if (!result)
		subject.unlock(&lock);
	return result;
}

static void a_thread_that_waits_until_a_time_gets_it_when_it_is_let_go(void **state)
{
	(void)state;
	NEEDS_TIMES();
	for (int i = 0; i < 20; i++) {
		pthread_t holder = let_another_hold_it();
		pthread_t waiter = start(get_and_give_it, NULL);
		while (atomic_load(&inside) == 0)
			sched_yield();
		if (i % 2)
			nap(1);
		let_it_go(holder);
		assert_int_equal((intptr_t)result_of(waiter), 0);
		atomic_store(&inside, 0);
	}
}

static void *have_it_now_and_then(void *unused)
{
	(void)unused;
	for (int i = 1; atomic_load(&phase) == 1; i++) {
		if (subject.try(&lock))
			subject.unlock(&lock);
		if (i % 64 == 0)
			sched_yield();
	}
	return NULL;
}

static int pipes[2];
static atomic_int in_handler;

static void wait_in_a_handler(int number)
{
	char byte;

	(void)number;
	atomic_store(&in_handler, 1);
	expect(read(pipes[0], &byte, 1) == 1);
}

static void *have_it_once(void *end_of_handler)
{
	subject.lock(&lock);
	if (end_of_handler)
		expect(write(pipes[1], "", 1) == 1);
	subject.unlock(&lock);
	return NULL;
}

static void one_in_a_signal_handler_does_not_keep_threads_from_a_free_one(void **state)
{
	(void)state;
	const struct sigaction action = {.sa_handler = wait_in_a_handler};

	SKIP_IF(!subject.sleeps || on_user_level(),
		"nobody is passed over in a queue, nor where one kernel thread waits in a handler");
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	subject.lock(&lock);
	pthread_t first = start(have_it_once, NULL);
	nap(20);
	pthread_t second = start(have_it_once, &lock);
	nap(20);
	assert_int_equal(pthread_kill(first, SIGUSR1), 0);
	/* Else it might have the lock in its handler, and wait for the other one for ever. */
#if defined(__SANITIZE_THREAD__)
	nap(20); /* which keeps the signal back until it has had the lock */
#else
	assert_true(becomes(&in_handler, 1));
#endif
	subject.unlock(&lock);
	result_of(second);
	result_of(first);
	assert_int_equal(close(pipes[0]) + close(pipes[1]), 0);
}

static struct tek_lock another;

static void *have_one_and_wait_for_the_other(void *unused)
{
	const struct timespec end = in_ms(CLOCK_MONOTONIC, 100);

	subject.lock(&lock);
	atomic_fetch_add(&phase, 1);
	while (atomic_load(&phase) != 2)
		sched_yield();
	expect(subject.lock_until(&another, (struct tek_until){CLOCK_MONOTONIC, &end}) ==
	       ETIMEDOUT);
	subject.unlock(&lock);
	return unused;
}

static void a_circle_ends_when_one_in_it_gives_up(void **state)
{
	(void)state;
	NEEDS_TIMES();
	atomic_store(&phase, 0);
	subject.lock(&another);
	pthread_t thread = start(have_one_and_wait_for_the_other, NULL);
	while (atomic_load(&phase) != 1)
		sched_yield();
	atomic_fetch_add(&phase, 1);
	nap(20);
	subject.lock(&lock);
	subject.unlock(&lock);
	subject.unlock(&another);
	result_of(thread);
}

static void a_thread_whose_wait_timed_out_does_not_have_it(void **state)
{
	(void)state;
	NEEDS_TIMES();
	atomic_store(&phase, 1);
	pthread_t other = start(have_it_now_and_then, NULL);
	for (int i = 0; i < 20 * ROUNDS; i++) {
		if (lock_at(CLOCK_MONOTONIC, (struct timespec){0, 0}) == 0)
			subject.unlock(&lock);
	}
	let_it_go(other);
	assert_true(subject.try(&lock));
	subject.unlock(&lock);
}

static _Atomic(struct tek_lock *) shown;

static void *lock_and_destroy(void *unused)
{
	(void)unused;
	for (int i = 0; i < OBJECTS; i++) {
		struct tek_lock *object;
		while (!(object = atomic_load(&shown)))
			sched_yield();
		subject.lock(object);
		subject.unlock(object);
		expect(munmap(object, 4096) == 0);
		atomic_store(&shown, NULL);
	}
	return NULL;
}

/* An access to it after that would kill the process. */
static void a_thread_that_has_it_next_may_destroy_it(void **state)
{
	(void)state;
	pthread_t other = start(lock_and_destroy, NULL);
	for (int i = 0; i < OBJECTS; i++) {
		struct tek_lock *object = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
					       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_true(object != MAP_FAILED);
		subject.lock(object);
		atomic_store(&shown, object);
		for (volatile int loops = 0; loops < i * 50; loops++)
			;
		subject.unlock(object);
		while (atomic_load(&shown))
			sched_yield();
	}
	result_of(other);
	assert_int_equal(atomic_load(&wrong), 0);
}

static void *hold_a_hundred(void *locks)
{
	struct tek_lock *one = locks;

	for (int i = 0; i < HELD; i++)
		subject.lock(&one[i]);
	for (int i = 0; i < HELD; i++)
		subject.unlock(&one[i * 37 % HELD]); /* in another order */
	return NULL;
}

static void a_thread_may_have_a_hundred_of_them(void **state)
{
	static struct tek_lock locks[HELD];

	(void)state;
	pthread_t other = start(hold_a_hundred, locks);
	for (int i = 0; i < 20; i++)
		hold_a_hundred(locks);
	result_of(other);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_of_zeros_is_free),
		cmocka_unit_test(it_is_had_by_one_at_a_time),
		cmocka_unit_test(one_thread_alone_has_it_each_time),
		cmocka_unit_test(two_threads_alternate),
		cmocka_unit_test(eight_threads_all_get_it),
		cmocka_unit_test(sixty_four_threads_all_get_it),
		cmocka_unit_test(a_thread_that_has_it_may_sleep),
		cmocka_unit_test(signals_at_every_moment_do_no_harm),
		cmocka_unit_test(a_thread_that_waits_until_a_time_waits_that_long),
		cmocka_unit_test(a_time_in_the_past_is_over_and_one_that_is_none_is_refused),
		cmocka_unit_test(a_thread_that_waits_until_a_time_gets_it_when_it_is_let_go),
		cmocka_unit_test(one_in_a_signal_handler_does_not_keep_threads_from_a_free_one),
		cmocka_unit_test(a_circle_ends_when_one_in_it_gives_up),
		cmocka_unit_test(a_thread_whose_wait_timed_out_does_not_have_it),
		cmocka_unit_test(a_thread_that_has_it_next_may_destroy_it),
		cmocka_unit_test(a_thread_may_have_a_hundred_of_them),
	};

	return begin(argc, argv) ? cmocka_run_group_tests(tests, find_host, NULL) : 1;
}
