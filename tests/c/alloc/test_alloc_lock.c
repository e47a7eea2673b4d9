/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The allocator's lock (lib/alloc/lock.h). */
#include "patience.h"
#include "support.h"

#include "alloc/lock.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

/* TSan cannot see the kernel's accesses to the word: the counts show whether the lock excludes. */
static struct tek_alloc_lock lock;
static unsigned long count;

static void *add(void *times)
{
	for (int i = 0; i < *(const int *)times; i++) {
		if (!tek_alloc__lock(&lock))
			abort();
		count++;
		tek_alloc__unlock(&lock);
	}
	return NULL;
}

static void only_one_thread_has_it(void **state)
{
	enum { THREADS = 8 };
	static const int times = 20000;
	pthread_t threads[THREADS];

	(void)state;
	count = 0;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, add, (void *)&times), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(count, THREADS * (unsigned long)times);
	assert_int_equal(lock.word, 0);
}

static void a_thread_that_has_it_does_not_get_it_again(void **state)
{
	(void)state;
	assert_true(tek_alloc__lock(&lock));
	assert_false(tek_alloc__lock(&lock));
	tek_alloc__unlock(&lock);
	assert_int_equal(lock.word, 0);
}

static atomic_bool is_asleep;

static void *wait_long(void *unused)
{
	(void)unused;
	atomic_store(&is_asleep, true);
	if (!tek_alloc__lock(&lock))
		abort();
	count++;
	tek_alloc__unlock(&lock);
	return NULL;
}

/* Longer than the longest spin: until the kernel knows of a waiter. */
static void a_thread_that_waits_long_sleeps_and_is_woken(void **state)
{
	pthread_t thread;

	(void)state;
	count = 0;
	assert_true(tek_alloc__lock(&lock));
	assert_int_equal(pthread_create(&thread, NULL, wait_long, NULL), 0);
	while (!(__atomic_load_n(&lock.word, __ATOMIC_RELAXED) & 0x80000000))
		sched_yield();
	assert_int_equal(count, 0);
	tek_alloc__unlock(&lock);
	pthread_join(thread, NULL);
	assert_int_equal(count, 1);
	assert_int_equal(lock.word, 0);
}

static void errno_stays(void **state)
{
	(void)state;
	errno = 4711;
	assert_true(tek_alloc__lock(&lock));
	assert_false(tek_alloc__lock(&lock));
	tek_alloc__unlock(&lock);
	assert_int_equal(errno, 4711);
}

/* 0, or the first of its steps that failed. */
static int outcome_of(int child(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		limit_to(30);
		_exit(child());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static int has_it_once(void)
{
	if (tek_alloc__lock(&lock))
		return 1;
	if (lock.word != (unsigned int)getpid() || lock.was_left)
		return 2;
	tek_alloc__unlock(&lock);
	return lock.word || !tek_alloc__lock(&lock) ? 3 : 0;
}

/* In a signal handler that interrupted the thread; it goes on afterwards, in both processes. */
static void a_child_of_the_thread_that_has_the_lock_has_it_too(void **state)
{
	(void)state;
	assert_true(tek_alloc__lock(&lock));
	const int status = outcome_of(has_it_once);
	tek_alloc__unlock(&lock);
	assert_int_equal(status, 0);
}

static int finds_it_left(void)
{
	if (!tek_alloc__lock(&lock))
		return 1;
	return lock.was_left && lock.word == (unsigned int)getpid() ? 0 : 2;
}

static atomic_bool is_held, is_done;

static void *hold(void *unused)
{
	(void)unused;
	if (!tek_alloc__lock(&lock))
		abort();
	atomic_store(&is_held, true);
	while (!atomic_load(&is_done))
		sched_yield();
	tek_alloc__unlock(&lock);
	return NULL;
}

static void a_child_gets_the_lock_of_a_missing_thread_marked_as_left(void **state)
{
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, hold, NULL), 0);
	while (!atomic_load(&is_held))
		sched_yield();
	const int status = outcome_of(finds_it_left);
	atomic_store(&is_done, true);
	pthread_join(thread, NULL);
	assert_int_equal(status, 0);
	assert_false(lock.was_left);
}

/* As that of vfork(): in this memory, this thread's own included. */
static int hold_until_somebody_sleeps(void *unused)
{
	(void)unused;
	if (!tek_alloc__lock(&lock))
		_exit(1);
	atomic_store(&is_held, true);
	while (!(__atomic_load_n(&lock.word, __ATOMIC_RELAXED) & 0x80000000))
		sched_yield();
	tek_alloc__unlock(&lock);
	_exit(0);
}

static void *wait_for_the_child(void *unused)
{
	while (!atomic_load(&is_held))
		sched_yield();
	return wait_long(unused);
}

static void the_child_of_a_vfork_hands_the_lock_to_a_sleeper(void **state)
{
	enum { STACK = 1 << 18 };
	static char stack[STACK] __attribute__((aligned(64)));
	pthread_t threads[3];
	int status;

	(void)state;
	skip_unless_clone_shares_memory();
	count = 0;
	atomic_store(&is_held, false);
	assert_true(tek_alloc__lock(&lock)); /* the id is known */
	tek_alloc__unlock(&lock);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, wait_for_the_child, NULL), 0);
	limit_to(60);
	pid_t child = clone(hold_until_somebody_sleeps, stack + STACK,
			    CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	alarm(0);
	assert_int_equal(count, 3);
	assert_true(tek_alloc__lock(&lock));
	tek_alloc__unlock(&lock);
	assert_int_equal(lock.word, 0);
}

static void a_child_of_a_bare_clone_has_an_id_of_its_own(void **state)
{
	int status;

	(void)state;
	assert_true(tek_alloc__lock(&lock)); /* the id is known */
	tek_alloc__unlock(&lock);
	pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (child == 0) {
		if (!tek_alloc__lock(&lock))
			_exit(1);
		_exit(lock.word == (unsigned int)syscall(SYS_getpid) ? 0 : 2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

#ifdef USER_LEVEL
/*
 * A user-level thread had the lock on one thread of the kernel, and forks on another one.  On the
 * first one now runs a thread that has the lock.  In the child no thread has it.
 */
static void a_child_is_not_taken_for_the_holder_on_its_kernel_thread(void **state)
{
	int status;

	(void)state;
	assert_true(tek_alloc__lock(&lock));
	tek_alloc__unlock(&lock);
	lock.word = (unsigned int)own_tid();
	pid_t child = fork();
	if (child == 0)
		_exit(!tek_alloc__lock(&lock) ? 1 : !lock.was_left ? 2 : 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	lock.word = 0;
}

/* Links the library whose name shows the lock that there are user-level threads. */
void tek_uthread_stub(void);
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_one_thread_has_it),
		cmocka_unit_test(a_thread_that_has_it_does_not_get_it_again),
		cmocka_unit_test(a_thread_that_waits_long_sleeps_and_is_woken),
		cmocka_unit_test(errno_stays),
		cmocka_unit_test(a_child_of_a_bare_clone_has_an_id_of_its_own),
	};
	const struct CMUnitTest tests_of_what_knows_processes[] = {
		cmocka_unit_test(a_child_of_the_thread_that_has_the_lock_has_it_too),
		cmocka_unit_test(a_child_gets_the_lock_of_a_missing_thread_marked_as_left),
		cmocka_unit_test(the_child_of_a_vfork_hands_the_lock_to_a_sleeper),
#ifdef USER_LEVEL
		cmocka_unit_test(a_child_is_not_taken_for_the_holder_on_its_kernel_thread),
#endif
	};
#ifdef USER_LEVEL
	tek_uthread_stub();
#endif
	/* Before the start each call asks the kernel; after it an id is known. */
	int failed = cmocka_run_group_tests_name("before the start", tests, NULL, NULL);
	if (failed)
		return failed;
	tek_alloc__lock_start(&lock);
	failed = cmocka_run_group_tests_name("after it", tests, NULL, NULL);
	return failed ? failed : cmocka_run_group_tests(tests_of_what_knows_processes, NULL, NULL);
}
