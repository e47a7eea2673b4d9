/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads are created, detached and joined, as many as the pool has. */
#include "engine_support.h"

#include <errno.h>

static void a_thread_gives_its_result_to_the_one_that_joins_it(void **state)
{
	(void)state;
	with_all_engines(create_and_join);
}

static void *make_a_tree(void *argument)
{
	uintptr_t depth = (uintptr_t)argument;

	if (depth > 0) {
		struct tek_uthread *one = spawn(make_a_tree, (void *)(depth - 1));
		struct tek_uthread *other = spawn(make_a_tree, (void *)(depth - 1));
		join(one);
		join(other);
	}
	atomic_fetch_add(&count, 1);
	return NULL;
}

static void grow_a_tree(void)
{
	join(spawn(make_a_tree, (void *)12));
	CHECK(atomic_load(&count) == (1 << 13) - 1);
}

static void threads_create_and_join_threads(void **state)
{
	(void)state;
	with_all_engines(grow_a_tree);
}

static void detach_many(void)
{
	const struct tek_uthread_creation detached = {.detached = true};

	for (int i = 0; i < 5000; i++) {
		if (i % 2)
			spawn_with(&detached, give_back, NULL);
		else
			CHECK(tek_ut__detach(spawn(give_back, NULL)) == 0);
	}
	while (atomic_load(&count) < 5000)
		sleep_ms(1);
}

static void detached_threads_give_themselves_back(void **state)
{
	(void)state;
	with_all_engines(detach_many);
}

static void join_for_a_while(void)
{
	static volatile unsigned long iterations;
	struct tek_uthread *thread = spawn(spin, (void *)&iterations);
	struct timespec deadline = tek__timespec_of(tek__now(CLOCK_MONOTONIC) + 20000000);

	CHECK(tek_ut__join(thread, NULL, &deadline) == ETIMEDOUT);
	CHECK(tek_ut__join(tek_ut__here_self(), NULL, NULL) == EDEADLK);
	atomic_store(&stop, true);
	join(thread);
}

static void joining_ends_at_its_time(void **state)
{
	(void)state;
	with_all_engines(join_for_a_while);
}

static struct tek_uthread *try_to_create(size_t stack_bytes)
{
	const struct tek_uthread_creation request = {.stack_bytes = stack_bytes};

	tek_ut__enter();
	struct tek_uthread *thread = tek_ut__new(&request, give_back, NULL);
	tek_ut__leave();
	return thread;
}

static void use_up_the_pool(void)
{
	struct tek_uthread *threads[5];

	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < 5; i++)
			CHECK((threads[i] = try_to_create(0)));
		CHECK(!try_to_create(0));
		for (int i = 0; i < 5; i++) {
			tek_ut__enter();
			tek_ut__launch(threads[i]);
			tek_ut__leave();
		}
		for (int i = 0; i < 5; i++)
			join(threads[i]);
		CHECK(!try_to_create(1 << 20));
	}
}

static void a_pool_has_as_many_threads_as_it_was_given(void **state)
{
	(void)state;
	with_engine("workers=1,sched=fifo,pool=5", use_up_the_pool);
	with_engine("workers=2,sched=fifo,pool=5", use_up_the_pool);
	with_engine("own:workers=2,sched=fifo,pool=5", use_up_the_pool);
}

static void *end_soon(void *argument)
{
	(void)argument;
	for (volatile int i = 0; i < 20000; i++)
		;
	return NULL;
}

/* The time is up just as the thread ends, on another worker. */
static void give_up_as_it_ends(void)
{
	for (unsigned int i = 0; i < 3000; i++) {
		struct tek_uthread *thread = spawn(end_soon, NULL);
		struct timespec deadline = tek__timespec_of(tek__now(CLOCK_MONOTONIC) +
							    i % 40 * 1000);
		int error = tek_ut__join(thread, NULL, &deadline);
		CHECK(error == 0 || error == ETIMEDOUT);
		if (error)
			join(thread);
	}
}

static void a_thread_that_gives_up_joining_as_the_thread_ends_can_join_again(void **state)
{
	(void)state;
	with_engine("workers=2", give_up_as_it_ends);
	with_engine("workers=3,quantum=100us", give_up_as_it_ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_gives_its_result_to_the_one_that_joins_it),
		cmocka_unit_test(threads_create_and_join_threads),
		cmocka_unit_test(detached_threads_give_themselves_back),
		cmocka_unit_test(joining_ends_at_its_time),
		cmocka_unit_test(a_pool_has_as_many_threads_as_it_was_given),
		cmocka_unit_test(a_thread_that_gives_up_joining_as_the_thread_ends_can_join_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
