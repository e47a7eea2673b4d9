/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread_objects.h"

static tek_uthread_semaphore_t semaphore, other;
static atomic_int inside;
static atomic_long taken, posted;
static atomic_bool stop;

static void *enter_and_leave(void *argument)
{
	for (int i = 0; i < 2000; i++) {
		CHECK(tek_uthread_semaphore_wait(&semaphore) == 0);
		int now = atomic_fetch_add(&inside, 1) + 1;
		CHECK(now <= 3);
		work(i % 50);
		if (i % 50 == (int)(uintptr_t)argument)
			tek_uthread_yield();
		atomic_fetch_sub(&inside, 1);
		CHECK(tek_uthread_semaphore_post(&semaphore) == 0);
	}
	return NULL;
}

static void let_three_in(void)
{
	CHECK(tek_uthread_semaphore_init(&semaphore, 3) == 0);
	run_threads(10, enter_and_leave);
	CHECK(tek_uthread_semaphore_value(&semaphore) == 3);
	CHECK(tek_uthread_semaphore_destroy(&semaphore) == 0);
}

static void as_many_get_in_as_its_value_allows(void **state)
{
	(void)state;
	in_all_engines(let_three_in);
}

static void *play(void *argument)
{
	tek_uthread_semaphore_t *mine = argument ? &other : &semaphore;
	tek_uthread_semaphore_t *theirs = argument ? &semaphore : &other;

	for (int i = 0; i < 5000; i++) {
		CHECK(tek_uthread_semaphore_wait(mine) == 0);
		CHECK(tek_uthread_semaphore_post(theirs) == 0);
	}
	return NULL;
}

static void play_ping_pong(void)
{
	CHECK(tek_uthread_semaphore_init(&semaphore, 1) == 0);
	run_threads(2, play);
	CHECK(tek_uthread_semaphore_value(&semaphore) == 1);
}

static void two_threads_alternate(void **state)
{
	(void)state;
	in_all_engines(play_ping_pong);
}

static void make_errors(void)
{
	struct timespec past = {0, 0}, never = {0, 1000000000}, soon = after_ms(10);

	CHECK(tek_uthread_semaphore_init(&semaphore, 0x80000000u) == EINVAL);
	CHECK(tek_uthread_semaphore_init(&semaphore, 0x7fffffff) == 0);
	CHECK(tek_uthread_semaphore_post(&semaphore) == EOVERFLOW);
	CHECK(tek_uthread_semaphore_value(&semaphore) == 0x7fffffff);
	CHECK(tek_uthread_semaphore_wait_until(&semaphore, &never) == 0);
	CHECK(tek_uthread_semaphore_init(&semaphore, 1) == 0);
	CHECK(tek_uthread_semaphore_trywait(&semaphore) == 0);
	CHECK(tek_uthread_semaphore_trywait(&semaphore) == EAGAIN);
	CHECK(tek_uthread_semaphore_wait_until(&semaphore, &never) == EINVAL);
	CHECK(tek_uthread_semaphore_wait_until(&semaphore, &past) == ETIMEDOUT);
	CHECK(tek_uthread_semaphore_wait_until(&semaphore, &soon) == ETIMEDOUT);
	CHECK(tek__now(CLOCK_MONOTONIC) >= tek__ns_of(&soon));
	CHECK(tek_uthread_semaphore_value(&semaphore) == 0);
	CHECK(tek_uthread_semaphore_destroy(&semaphore) == 0);
}

static void errors_are_found_and_waiting_ends_at_its_time(void **state)
{
	(void)state;
	in_all_engines(make_errors);
}

static void *take_shortly(void *argument)
{
	while (!atomic_load(&stop)) {
		struct timespec soon = tek__timespec_of(tek__now(CLOCK_MONOTONIC) +
							10000 * (uintptr_t)argument);
		int error = tek_uthread_semaphore_wait_until(&semaphore, &soon);
		CHECK(error == 0 || error == ETIMEDOUT);
		if (!error)
			atomic_fetch_add(&taken, 1);
	}
	return NULL;
}

static void *post_often(void *argument)
{
	(void)argument;
	while (!atomic_load(&stop)) {
		CHECK(tek_uthread_semaphore_post(&semaphore) == 0);
		atomic_fetch_add(&posted, 1);
		tek_uthread_sleep(5000);
	}
	return NULL;
}

static void give_up_often(void)
{
	tek_uthread_t threads[8];

	for (uintptr_t i = 0; i < 8; i++)
		threads[i] = begin(i < 6 ? take_shortly : post_often, (void *)i);
	tek_uthread_sleep(300000000);
	WAIT_UNTIL(atomic_load(&posted) > 100);
	atomic_store(&stop, true);
	for (int i = 0; i < 8; i++)
		end_of(threads[i]);
	CHECK(atomic_load(&posted) ==
	      atomic_load(&taken) + tek_uthread_semaphore_value(&semaphore));
}

static void no_unit_is_lost_to_those_that_give_up(void **state)
{
	(void)state;
	in_all_engines(give_up_often);
}

static void *post_it(void *argument)
{
	CHECK(tek_uthread_semaphore_post(argument) == 0);
	return NULL;
}

/* The poster must not access it after the wake-up. */
static void wait_and_free(void)
{
	for (int i = 0; i < 3000; i++) {
		tek_uthread_semaphore_t *once = calloc(1, sizeof(*once));
		tek_uthread_t thread = begin(post_it, once);
		CHECK(tek_uthread_semaphore_wait(once) == 0);
		memset(once, 0xff, sizeof(*once));
		free(once);
		end_of(thread);
	}
}

static void a_thread_that_got_its_unit_may_free_it(void **state)
{
	(void)state;
	in_all_engines(wait_and_free);
}

static atomic_uint order;

/* The poster knows that a thread waits, and that none will wait afterwards. */
static tek_uthread_semaphore_t reused;

/* The highest bit of the first word: lib/uthread/semaphore.h. */
static bool has_waiter(volatile tek_uthread_semaphore_t *of)
{
	return of->word_[0] >> 31;
}

static void *wait_once(void *argument)
{
	(void)argument;
	CHECK(tek_uthread_semaphore_wait(&reused) == 0);
	return NULL;
}

static void post_and_reuse(void)
{
	for (int i = 0; i < 1000; i++) {
		CHECK(tek_uthread_semaphore_init(&reused, 0) == 0);
		tek_uthread_t thread = begin(wait_once, NULL);
		while (!has_waiter(&reused))
			tek_uthread_yield();
		CHECK(tek_uthread_semaphore_post(&reused) == 0);
		CHECK(tek_uthread_semaphore_destroy(&reused) == 0);
		memset(&reused, 0xff, sizeof(reused));
		end_of(thread);
	}
}

static void a_thread_that_posts_to_the_last_waiter_may_destroy_it(void **state)
{
	(void)state;
	in_all_engines(post_and_reuse);
}

static void *note_order(void *argument)
{
	tek_uthread_set_priority(tek_uthread_self(), (int)(uintptr_t)argument);
	CHECK(tek_uthread_semaphore_wait(&semaphore) == 0);
	return (void *)(uintptr_t)(atomic_fetch_add(&order, 1) + 1);
}

static void wait_with_priorities(void)
{
	static const uintptr_t priorities[] = {1, 5, 5, 3};
	static const uintptr_t places[] = {4, 1, 2, 3};
	tek_uthread_t threads[4];

	for (int i = 0; i < 4; i++) {
		threads[i] = begin(note_order, (void *)priorities[i]);
		WAIT_UNTIL(((volatile struct tek_uthread *)threads[i])->waits_for);
	}
	for (unsigned int i = 0; i < 4; i++) {
		CHECK(tek_uthread_semaphore_post(&semaphore) == 0);
		WAIT_UNTIL(atomic_load(&order) == i + 1);
	}
	for (int i = 0; i < 4; i++)
		CHECK(end_of(threads[i]) == (void *)places[i]);
}

static void the_most_urgent_and_then_the_longest_waiting_comes_first(void **state)
{
	(void)state;
	in_all_engines(wait_with_priorities);
}

static void play_with_a_kernel_thread(void)
{
	CHECK(tek_uthread_semaphore_init(&semaphore, 1) == 0);
	pthread_t kernel = begin_kernel_thread(play, (void *)1);
	play(NULL);
	pthread_join(kernel, NULL);
	CHECK(tek_uthread_semaphore_value(&semaphore) == 1);
}

static void kernel_threads_and_user_level_threads_wake_each_other(void **state)
{
	(void)state;
	in_engine("workers=1,quantum=200us,foreign", play_with_a_kernel_thread);
	in_engine("workers=2,quantum=200us,foreign", play_with_a_kernel_thread);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_many_get_in_as_its_value_allows),
		cmocka_unit_test(two_threads_alternate),
		cmocka_unit_test(errors_are_found_and_waiting_ends_at_its_time),
		cmocka_unit_test(no_unit_is_lost_to_those_that_give_up),
		cmocka_unit_test(a_thread_that_got_its_unit_may_free_it),
		cmocka_unit_test(a_thread_that_posts_to_the_last_waiter_may_destroy_it),
		cmocka_unit_test(the_most_urgent_and_then_the_longest_waiting_comes_first),
		cmocka_unit_test(kernel_threads_and_user_level_threads_wake_each_other),
	};
	return cmocka_run_group_tests_name("uthread semaphore", tests, NULL, NULL);
}
