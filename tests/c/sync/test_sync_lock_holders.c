/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The holder of a lock, and the thread that unlocks it: another thread, a thread that unlocks
 * twice, a child of fork(), or no living thread.  See sync_lock_subject.h.
 */
#include "fork_copy.h"
#include "patience.h"
#include "sync_lock_subject.h"

#include "sync/forked_lock.h"

#include <sys/wait.h>

static void *leave_it_locked(void *unused)
{
	(void)unused;
	subject.lock(&lock);
	return NULL;
}

static void one_that_a_dead_thread_had_harms_no_other(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		memset(&lock, 0, sizeof(lock));
		result_of(start(leave_it_locked, NULL));
		assert_false(subject.try(&lock));
		memset(&lock, 0, sizeof(lock));
		compete_with(1);
	}
	memset(&lock, 0, sizeof(lock));
}

static void a_child_of_fork_locks_and_unlocks(void **state)
{
	int status;

	(void)state;
	subject.lock(&lock);
	subject.unlock(&lock);
	pid_t child = fork();
	if (child == 0) {
		subject.lock(&lock);
		const bool locked = !subject.try(&lock);
		subject.unlock(&lock);
		_exit(locked && subject.try(&lock) ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void *wait_for_it(void *unused)
{
	atomic_fetch_add(&phase, 1);
	subject.lock(&lock);
	subject.unlock(&lock);
	return unused;
}

/* The memory of a child of fork() while two threads wait. */
static struct tek_lock one_that_two_wait_for(void)
{
	struct tek_lock childs;
	pthread_t waiters[2];

	atomic_store(&phase, 0);
	subject.lock(&lock);
	for (int i = 0; i < 2; i++)
		waiters[i] = start(wait_for_it, NULL);
	assert_true(becomes(&phase, 2));
	nap(20);
	copy_as_fork_does(&childs, &lock, sizeof(childs));
	subject.unlock(&lock);
	for (int i = 0; i < 2; i++)
		result_of(waiters[i]);
	return childs;
}

static void a_child_waits_for_no_waiter_of_its_parent(void **state)
{
	const unsigned int parent = tek_sync__process() + TEK_PROCESS_FIRST;
	const struct timespec soon = in_ms(CLOCK_MONOTONIC, 5);

	(void)state;
	NEEDS_TIMES();
	for (int held = 0; held < 2; held++) {
		struct tek_lock childs = one_that_two_wait_for();
		atomic_uint process = parent;
		if (!held)
			copy_as_fork_does(&childs, &lock, sizeof(childs));
		assert_int_equal(subject.is_locked(&childs), held);
		if (held) {
			assert_false(tek_sync__forked_lock_try(&childs, &process, &subject));
			assert_int_equal(tek_sync__forked_lock_until(
						 &childs, &process, &subject,
						 (struct tek_until){CLOCK_MONOTONIC, &soon}),
					 ETIMEDOUT);
		}
		tek_sync__forked_unlock(&childs, &process, &subject);
		for (int i = 0; i < 2; i++) {
			tek_sync__forked_lock(&childs, &process, &subject);
			assert_false(tek_sync__forked_lock_try(&childs, &process, &subject));
			tek_sync__forked_unlock(&childs, &process, &subject);
		}
		memcpy(&lock, &childs, sizeof(lock));
		compete_with(3);
	}
}

/* As with the C library's locks.  The program has a bug, but the lock must not block it. */
static void unlocking_a_free_one_leaves_it_free(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		for (int j = 0; j <= i; j++)
			subject.unlock(&lock);
		assert_true(subject.try(&lock));
		assert_false(subject.try(&lock));
		subject.unlock(&lock);
		subject.unlock(&lock);
		subject.lock(&lock);
		assert_false(subject.try(&lock));
		subject.unlock(&lock);
	}
	compete_with(3);
}

static void *unlock_it(void *unused)
{
	subject.unlock(&lock);
	return unused;
}

/* Also while threads wait; each of them gets it. */
static void another_thread_may_unlock_it(void **state)
{
	pthread_t waiters[2];

	(void)state;
	NEEDS_NO_OWNER();
	for (int waiting = 0; waiting <= 2; waiting++) {
		atomic_store(&phase, 0);
		subject.lock(&lock);
		for (int i = 0; i < waiting; i++)
			waiters[i] = start(wait_for_it, NULL);
		assert_true(becomes(&phase, waiting));
		nap(5);
		result_of(start(unlock_it, NULL));
		for (int i = 0; i < waiting; i++)
			result_of(waiters[i]);
		assert_true(subject.try(&lock));
		subject.unlock(&lock);
	}
}

/*
 * A bug of the program, too.  The second unlock may come while the next waiter has the lock, or
 * before that waiter has seen that it has it.
 */
static void a_thread_that_unlocks_twice_lets_the_next_one_have_it(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++) {
		atomic_store(&phase, 0);
		subject.lock(&lock);
		const pthread_t waiter = start(wait_for_it, NULL);
		assert_true(becomes(&phase, 1));
		nap(i % 3);
		subject.unlock(&lock);
		subject.unlock(&lock);
		result_of(waiter);
		assert_true(subject.try(&lock));
		subject.unlock(&lock);
	}
}

static void *lock_three_times(void *unused)
{
	for (int i = 0; i < 3; i++) {
		subject.lock(&lock);
		atomic_fetch_add(&phase, 1);
	}
	subject.unlock(&lock);
	return unused;
}

/* As programs do that take a mutex for a semaphore. */
static void a_thread_that_has_it_may_wait_until_another_one_unlocks_it(void **state)
{
	(void)state;
	NEEDS_NO_OWNER();
	atomic_store(&phase, 0);
	const pthread_t waiter = start(lock_three_times, NULL);
	for (int i = 1; i <= 2; i++) {
		assert_true(becomes(&phase, i));
		nap(3);
		subject.unlock(&lock);
	}
	result_of(waiter);
	assert_true(subject.try(&lock));
	subject.unlock(&lock);
}

static void a_child_unlocks_what_it_had_in_its_parent(void **state)
{
	static atomic_uint process;
	int status;

	(void)state;
	SKIP_IF(!subject.is_locked, "a pthread_spinlock_t does not say which process locked it");
	tek_sync__forked_lock(&lock, &process, &subject);
	pid_t child = fork();
	if (child == 0) {
		limit_to(30);
		if (tek_sync__forked_lock_try(&lock, &process, &subject))
			_exit(1);
		tek_sync__forked_unlock(&lock, &process, &subject);
		tek_sync__forked_unlock(&lock, &process, &subject);
		for (int i = 0; i < 3; i++) {
			tek_sync__forked_lock(&lock, &process, &subject);
			if (tek_sync__forked_lock_try(&lock, &process, &subject))
				_exit(2);
			tek_sync__forked_unlock(&lock, &process, &subject);
		}
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_false(tek_sync__forked_lock_try(&lock, &process, &subject));
	tek_sync__forked_unlock(&lock, &process, &subject);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_a_dead_thread_had_harms_no_other),
		cmocka_unit_test(a_child_of_fork_locks_and_unlocks),
		cmocka_unit_test(a_child_waits_for_no_waiter_of_its_parent),
		cmocka_unit_test(unlocking_a_free_one_leaves_it_free),
		cmocka_unit_test(another_thread_may_unlock_it),
		cmocka_unit_test(a_thread_that_unlocks_twice_lets_the_next_one_have_it),
		cmocka_unit_test(a_thread_that_has_it_may_wait_until_another_one_unlocks_it),
		cmocka_unit_test(a_child_unlocks_what_it_had_in_its_parent),
	};

	return begin(argc, argv) ? cmocka_run_group_tests(tests, find_host, NULL) : 1;
}
