/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread_objects.h"

static tek_uthread_mutex_t mutex;
static long long counter;
static atomic_int inside;
static atomic_bool stop;
static atomic_uint done;

static void *count_under_it(void *argument)
{
	for (int i = 0; i < 3000; i++) {
		CHECK(tek_uthread_mutex_lock(&mutex) == 0);
		CHECK(atomic_fetch_add_explicit(&inside, 1, memory_order_relaxed) == 0);
		long long seen = counter;
		work(i % 64);
		if (i % 100 == (int)(uintptr_t)argument)
			tek_uthread_yield();
		counter = seen + 1;
		atomic_fetch_sub_explicit(&inside, 1, memory_order_relaxed);
		CHECK(tek_uthread_mutex_unlock(&mutex) == 0);
	}
	return NULL;
}

static void count_in_20(void)
{
	run_threads(20, count_under_it);
	CHECK(counter == 20 * 3000);
	CHECK(mutex.state_ == 0);
}

static void one_thread_at_a_time_has_it(void **state)
{
	(void)state;
	in_all_engines(count_in_20);
}

/* ---- kinds ---- */

static void *unlock_what_is_not_ours(void *argument)
{
	CHECK(tek_uthread_mutex_unlock(argument) == EPERM);
	CHECK(tek_uthread_mutex_trylock(argument) == EBUSY);
	return NULL;
}

static void lock_again_and_again(void)
{
	tek_uthread_mutex_t recursive = TEK_UTHREAD_MUTEX_RECURSIVE_INITIALIZER;

	for (int i = 0; i < 10; i++)
		CHECK((i % 2 ? tek_uthread_mutex_lock : tek_uthread_mutex_trylock)(&recursive) ==
		      0);
	for (int i = 0; i < 10; i++) {
		end_of(begin(unlock_what_is_not_ours, &recursive));
		CHECK(tek_uthread_mutex_unlock(&recursive) == 0);
	}
	CHECK(tek_uthread_mutex_unlock(&recursive) == EPERM);
	CHECK(tek_uthread_mutex_destroy(&recursive) == 0);
}

static void a_recursive_one_is_unlocked_as_often_as_locked(void **state)
{
	(void)state;
	in_all_engines(lock_again_and_again);
}

static void make_errors(void)
{
	tek_uthread_mutex_t checking = TEK_UTHREAD_MUTEX_ERRORCHECK_INITIALIZER;
	struct timespec soon = after_ms(1000), never = {0, 1000000000};

	CHECK(tek_uthread_mutex_unlock(&checking) == EPERM);
	CHECK(tek_uthread_mutex_lock(&checking) == 0);
	CHECK(tek_uthread_mutex_lock(&checking) == EDEADLK);
	CHECK(tek_uthread_mutex_trylock(&checking) == EBUSY);
	CHECK(tek_uthread_mutex_lock_until(&checking, &soon) == EDEADLK);
	CHECK(tek_uthread_mutex_destroy(&checking) == EBUSY);
	end_of(begin(unlock_what_is_not_ours, &checking));
	CHECK(tek_uthread_mutex_unlock(&checking) == 0);
	/* The time is checked only if the call has to wait. */
	CHECK(tek_uthread_mutex_lock_until(&checking, &never) == 0);
	CHECK(tek_uthread_mutex_unlock(&checking) == 0);
	CHECK(tek_uthread_mutex_destroy(&checking) == 0);
	CHECK(tek_uthread_mutex_lock(&checking) == EINVAL);
	CHECK(tek_uthread_mutex_init(&checking, 3) == EINVAL);
	CHECK(tek_uthread_mutex_init(&checking, TEK_UTHREAD_MUTEX_NORMAL) == 0);
	CHECK(tek_uthread_mutex_lock(&checking) == 0);
	CHECK(tek_uthread_mutex_lock_until(&checking, &never) == EINVAL);
}

static void an_error_checking_one_finds_errors(void **state)
{
	(void)state;
	in_all_engines(make_errors);
}

/* ---- times ---- */

static void *wait_in_vain(void *argument)
{
	uint64_t before = tek__now(CLOCK_MONOTONIC);
	struct timespec soon = after_ms(20);

	CHECK(tek_uthread_mutex_lock_until(argument, &soon) == ETIMEDOUT);
	CHECK(tek__now(CLOCK_MONOTONIC) - before >= 19000000);
	return NULL;
}

static void wait_until_it_is_too_late(void)
{
	struct timespec past = {0, 0};

	CHECK(tek_uthread_mutex_lock(&mutex) == 0);
	CHECK(tek_uthread_mutex_lock_until(&mutex, &past) == ETIMEDOUT);
	tek_uthread_t one = begin(wait_in_vain, &mutex), other = begin(wait_in_vain, &mutex);
	end_of(one);
	end_of(other);
	CHECK(tek_uthread_mutex_unlock(&mutex) == 0);
	CHECK(mutex.state_ == 0 && !mutex.first_);
	CHECK(tek_uthread_mutex_trylock(&mutex) == 0);
}

static void waiting_ends_at_its_time(void **state)
{
	(void)state;
	in_all_engines(wait_until_it_is_too_late);
}

/* Times so short that unlocking and giving up meet. */
static void *wait_shortly(void *argument)
{
	while (!atomic_load(&stop)) {
		struct timespec soon = tek__timespec_of(tek__now(CLOCK_MONOTONIC) +
							20000 * (uintptr_t)argument);
		int error = tek_uthread_mutex_lock_until(&mutex, &soon);
		CHECK(error == 0 || error == ETIMEDOUT);
		if (error)
			continue;
		CHECK(atomic_fetch_add(&inside, 1) == 0);
		work(1000);
		atomic_fetch_sub(&inside, 1);
		CHECK(tek_uthread_mutex_unlock(&mutex) == 0);
		tek_uthread_yield();
	}
	return NULL;
}

static void give_up_often(void)
{
	tek_uthread_t threads[8];

	for (uintptr_t i = 0; i < 8; i++)
		threads[i] = begin(wait_shortly, (void *)i);
	tek_uthread_sleep(300000000);
	atomic_store(&stop, true);
	for (int i = 0; i < 8; i++)
		end_of(threads[i]);
	CHECK(mutex.state_ == 0);
}

static void no_wake_up_is_lost_to_those_that_give_up(void **state)
{
	(void)state;
	in_all_engines(give_up_often);
}

/* ---- fairness ---- */

static void *hold_it_most_of_the_time(void *argument)
{
	(void)argument;
	while (!atomic_load(&stop)) {
		tek_uthread_mutex_lock(&mutex);
		work(20000);
		tek_uthread_mutex_unlock(&mutex);
	}
	return NULL;
}

static void *lock_it_once(void *argument)
{
	(void)argument;
	tek_uthread_mutex_lock(&mutex);
	atomic_fetch_add(&done, 1);
	tek_uthread_mutex_unlock(&mutex);
	return NULL;
}

static void compete_with_two_that_hold_it(void)
{
	tek_uthread_t greedy[2] = {begin(hold_it_most_of_the_time, NULL),
				   begin(hold_it_most_of_the_time, NULL)};
	tek_uthread_t rest[5];

	for (int i = 0; i < 5; i++)
		rest[i] = begin(lock_it_once, NULL);
	for (int i = 0; i < 5; i++)
		end_of(rest[i]);
	atomic_store(&stop, true);
	end_of(greedy[0]);
	end_of(greedy[1]);
	CHECK(atomic_load(&done) == 5);
}

static void nobody_starves_beside_threads_that_lock_it_all_the_time(void **state)
{
	(void)state;
	for (size_t i = 1; i < sizeof(all_engines) / sizeof(all_engines[0]); i++)
		in_engine(all_engines[i], compete_with_two_that_hold_it);
}

/* ---- life ---- */

struct shared {
	tek_uthread_mutex_t mutex;
	int users;
};

/* The last one to leave frees it; an earlier one must not access it any more. */
static void leave(struct shared *shared)
{
	CHECK(tek_uthread_mutex_lock(&shared->mutex) == 0);
	int left = --shared->users;
	CHECK(tek_uthread_mutex_unlock(&shared->mutex) == 0);
	if (left == 0) {
		memset(shared, 0xff, sizeof(*shared));
		free(shared);
	}
}

static void *leave_thread(void *argument)
{
	leave(argument);
	return NULL;
}

static void share_and_free(void)
{
	for (int i = 0; i < 2000; i++) {
		struct shared *shared = calloc(1, sizeof(*shared));
		shared->users = 4;
		tek_uthread_t threads[3];
		for (int j = 0; j < 3; j++)
			threads[j] = begin(leave_thread, shared);
		leave(shared);
		for (int j = 0; j < 3; j++)
			end_of(threads[j]);
	}
}

static void the_last_user_may_free_it(void **state)
{
	(void)state;
	in_all_engines(share_and_free);
}

/* ---- kernel threads ---- */

static void *count_as_kernel_thread(void *argument)
{
	CHECK(tek_uthread_self() == NULL);
	return count_under_it(argument);
}

static void count_with_kernel_threads(void)
{
	pthread_t kernel[3];
	for (uintptr_t i = 0; i < 3; i++)
		kernel[i] = begin_kernel_thread(count_as_kernel_thread, (void *)(i + 200));
	run_threads(5, count_under_it);
	for (int i = 0; i < 3; i++)
		pthread_join(kernel[i], NULL);
	CHECK(counter == 8 * 3000);
	CHECK(mutex.state_ == 0);
}

static void kernel_threads_and_user_level_threads_use_the_same(void **state)
{
	(void)state;
	in_engine("workers=1,quantum=200us,foreign", count_with_kernel_threads);
	in_engine("workers=2,quantum=200us,foreign", count_with_kernel_threads);
	in_engine("workers=2,quantum=1ms,preempt=klt,foreign", count_with_kernel_threads);
}

/* ---- robust ones ---- */

static void *end_with_it(void *argument)
{
	CHECK(tek_uthread_mutex_lock(argument) == 0);
	return NULL;
}

static void *exit_with_it(void *argument)
{
	int error = tek_uthread_mutex_lock(argument);
	CHECK(error == 0 || error == EOWNERDEAD);
	tek_uthread_exit(NULL);
}

static void *wait_for_it(void *argument)
{
	int error = tek_uthread_mutex_lock(argument);
	atomic_fetch_add(&done, 1);
	if (error == EOWNERDEAD || error == 0)
		CHECK(tek_uthread_mutex_unlock(argument) == 0);
	return (void *)(intptr_t)error;
}

static void lose_owners(void)
{
	tek_uthread_mutex_t robust;
	tek_uthread_t waiters[3];
	unsigned int dead = 0, lost = 0;

	CHECK(tek_uthread_mutex_init(&robust, TEK_UTHREAD_MUTEX_ROBUST) == 0);
	CHECK(tek_uthread_mutex_consistent(&robust) == EINVAL);
	end_of(begin(end_with_it, &robust));
	CHECK(tek_uthread_mutex_trylock(&robust) == EOWNERDEAD);
	CHECK(tek_uthread_mutex_consistent(&robust) == 0);
	CHECK(tek_uthread_mutex_consistent(&robust) == EINVAL);
	CHECK(tek_uthread_mutex_unlock(&robust) == 0);
	CHECK(tek_uthread_mutex_lock(&robust) == 0);
	CHECK(tek_uthread_mutex_unlock(&robust) == 0);
	/* Twice: the second owner does not make it consistent, but does not unlock it either. */
	end_of(begin(exit_with_it, &robust));
	end_of(begin(exit_with_it, &robust));
	CHECK(tek_uthread_mutex_lock(&robust) == EOWNERDEAD);
	for (int i = 0; i < 3; i++)
		waiters[i] = begin(wait_for_it, &robust);
	tek_uthread_sleep(5000000);
	CHECK(atomic_load(&done) == 0);
	CHECK(tek_uthread_mutex_unlock(&robust) == 0);
	for (int i = 0; i < 3; i++) {
		int error = (int)(intptr_t)end_of(waiters[i]);
		dead += error == EOWNERDEAD;
		lost += error == ENOTRECOVERABLE;
	}
	CHECK(dead == 0 && lost == 3);
	CHECK(tek_uthread_mutex_lock(&robust) == ENOTRECOVERABLE);
	CHECK(tek_uthread_mutex_trylock(&robust) == ENOTRECOVERABLE);
	CHECK(tek_uthread_mutex_destroy(&robust) == 0);
}

static void a_robust_one_reports_that_its_owner_ended(void **state)
{
	(void)state;
	in_all_engines(lose_owners);
}

/* ---- inheritance ---- */

static tek_uthread_mutex_t first_mutex, second_mutex;

static void *wait_with_priority(void *argument)
{
	tek_uthread_set_priority(tek_uthread_self(), (int)(uintptr_t)argument);
	CHECK(tek_uthread_mutex_lock(&first_mutex) == 0);
	CHECK(tek_uthread_mutex_unlock(&first_mutex) == 0);
	return NULL;
}

static int priority_now(tek_uthread_t thread)
{
	return ((struct tek_uthread *)thread)->sched.priority;
}

/* Has the first, waits for the second. */
static void *stand_between(void *argument)
{
	CHECK(tek_uthread_mutex_lock(&first_mutex) == 0);
	atomic_store(&done, 1);
	CHECK(tek_uthread_mutex_lock(&second_mutex) == 0);
	CHECK(priority_now(tek_uthread_self()) == 30);
	CHECK(tek_uthread_mutex_unlock(&second_mutex) == 0);
	CHECK(priority_now(tek_uthread_self()) == 30);
	CHECK(tek_uthread_mutex_unlock(&first_mutex) == 0);
	CHECK(priority_now(tek_uthread_self()) == 2);
	return argument;
}

static void inherit_along_a_chain(void)
{
	struct tek_uthread_attributes two = {.has_priority = 1, .priority = 2};
	tek_uthread_t self = tek_uthread_self(), between, waiter, urgent;
	int priority;

	CHECK(tek_uthread_mutex_init(&first_mutex, TEK_UTHREAD_MUTEX_INHERIT) == 0);
	CHECK(tek_uthread_mutex_init(&second_mutex,
				     TEK_UTHREAD_MUTEX_INHERIT | TEK_UTHREAD_MUTEX_RECURSIVE) == 0);
	CHECK(tek_uthread_mutex_lock(&second_mutex) == 0);
	CHECK(tek_uthread_create(&between, &two, stand_between, NULL) == 0);
	WAIT_UNTIL(atomic_load(&done));
	waiter = begin(wait_with_priority, (void *)10);
	WAIT_UNTIL(priority_now(self) == 10);
	urgent = begin(wait_with_priority, (void *)30);
	WAIT_UNTIL(priority_now(self) == 30 && priority_now(between) == 30);
	CHECK(tek_uthread_get_priority(self, &priority) == 0 && priority == 0);
	CHECK(tek_uthread_get_priority(between, &priority) == 0 && priority == 2);
	CHECK(tek_uthread_set_priority(self, 1) == 0);
	CHECK(priority_now(self) == 30);
	CHECK(tek_uthread_mutex_unlock(&second_mutex) == 0);
	CHECK(priority_now(self) == 1);
	end_of(between);
	end_of(waiter);
	end_of(urgent);
}

static void an_owner_is_as_urgent_as_those_that_wait(void **state)
{
	(void)state;
	in_all_engines(inherit_along_a_chain);
	in_engine("workers=1,sched=fifo,quantum=1ms", inherit_along_a_chain);
	in_engine("workers=2,sched=fifo,quantum=1ms", inherit_along_a_chain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_thread_at_a_time_has_it),
		cmocka_unit_test(a_recursive_one_is_unlocked_as_often_as_locked),
		cmocka_unit_test(an_error_checking_one_finds_errors),
		cmocka_unit_test(waiting_ends_at_its_time),
		cmocka_unit_test(no_wake_up_is_lost_to_those_that_give_up),
		cmocka_unit_test(nobody_starves_beside_threads_that_lock_it_all_the_time),
		cmocka_unit_test(the_last_user_may_free_it),
		cmocka_unit_test(kernel_threads_and_user_level_threads_use_the_same),
		cmocka_unit_test(a_robust_one_reports_that_its_owner_ended),
		cmocka_unit_test(an_owner_is_as_urgent_as_those_that_wait),
	};
	return cmocka_run_group_tests_name("uthread mutex", tests, NULL, NULL);
}
