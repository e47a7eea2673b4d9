/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread_objects.h"

#include "uthread/key.h"

enum { KEYS = 100, THREADS = 20 };

static tek_uthread_key_t keys[1024], again_key;
static atomic_uint destroyed;

static void count_destroyed(void *value)
{
	CHECK(value != NULL);
	atomic_fetch_add(&destroyed, 1);
}

static void *set_and_get(void *argument)
{
	uintptr_t number = (uintptr_t)argument;

	for (uintptr_t i = 0; i < KEYS; i++)
		CHECK(tek_uthread_key_get(keys[i]) == NULL);
	for (uintptr_t i = 0; i < KEYS; i++)
		CHECK(tek_uthread_key_set(keys[i], (void *)(number * KEYS + i + 1)) == 0);
	for (int rounds = 0; rounds < 20; rounds++) {
		tek_uthread_yield();
		for (uintptr_t i = 0; i < KEYS; i++)
			CHECK(tek_uthread_key_get(keys[i]) == (void *)(number * KEYS + i + 1));
	}
	CHECK(tek_uthread_key_set(keys[0], NULL) == 0);
	return NULL;
}

static void set_in_many(void)
{
	for (int i = 0; i < KEYS; i++)
		CHECK(tek_uthread_key_create(&keys[i], i % 2 ? NULL : count_destroyed) == 0);
	for (int i = 0; i < 3; i++)
		run_threads(THREADS, set_and_get);
	CHECK(atomic_load(&destroyed) == 3 * THREADS * (KEYS / 2 - 1));
}

static void each_thread_has_values_of_its_own_and_destroys_them(void **state)
{
	(void)state;
	in_all_engines(set_in_many);
}

static void set_again(void *value)
{
	atomic_fetch_add(&destroyed, 1);
	CHECK(tek_uthread_key_get(again_key) == NULL);
	tek_uthread_key_set(again_key, value);
	tek_uthread_yield();
}

static void *set_once_and_exit(void *argument)
{
	CHECK(tek_uthread_key_set(again_key, argument) == 0);
	tek_uthread_exit(NULL);
}

static void *see_nothing(void *argument)
{
	CHECK(tek_uthread_key_get(again_key) == NULL);
	return argument;
}

static void destroy_again_and_again(void)
{
	CHECK(tek_uthread_key_create(&again_key, set_again) == 0);
	end_of(begin(set_once_and_exit, &again_key));
	CHECK(atomic_load(&destroyed) == TEK_KEY_ROUNDS);
	/* A later thread does not see the values of an ended one. */
	end_of(begin(see_nothing, NULL));
}

static void destructors_that_set_values_are_called_four_times(void **state)
{
	(void)state;
	in_all_engines(destroy_again_and_again);
}

static atomic_bool is_set;

static void *keep_a_value(void *argument)
{
	atomic_bool *deleted = argument;
	CHECK(tek_uthread_key_set(keys[0], &keys) == 0);
	atomic_store(&is_set, true);
	WAIT_UNTIL(atomic_load(deleted));
	CHECK(tek_uthread_key_get(keys[0]) == NULL);
	return NULL;
}

static void use_up_and_delete(void)
{
	atomic_bool deleted = false;
	unsigned int count = 0, one_more;

	while (count < 1024 && tek_uthread_key_create(&keys[count], count_destroyed) == 0)
		count++;
	CHECK(count == 1024);
	CHECK(tek_uthread_key_create(&one_more, NULL) == EAGAIN);
	CHECK(tek_uthread_key_set(keys[0], &deleted) == 0);
	CHECK(tek_uthread_key_set(keys[1023], &deleted) == 0);
	tek_uthread_t thread = begin(keep_a_value, &deleted);
	WAIT_UNTIL(atomic_load(&is_set));
	CHECK(tek_uthread_key_delete(keys[0]) == 0);
	CHECK(tek_uthread_key_delete(keys[0]) == EINVAL);
	CHECK(tek_uthread_key_set(keys[0], &deleted) == EINVAL);
	CHECK(tek_uthread_key_get(keys[0]) == NULL);
	CHECK(tek_uthread_key_create(&one_more, count_destroyed) == 0);
	CHECK(tek_uthread_key_get(one_more) == NULL);
	CHECK(tek_uthread_key_get(keys[1023]) == &deleted);
	atomic_store(&deleted, true);
	end_of(thread);
	CHECK(atomic_load(&destroyed) == 0);
	CHECK(tek_uthread_key_delete(4711) == EINVAL);
	CHECK(tek_uthread_key_get(4711) == NULL);
}

static void a_key_takes_its_values_along(void **state)
{
	(void)state;
	in_all_engines(use_up_and_delete);
}

/* Before the engine starts, its first thread is a kernel thread. */
static void the_first_thread_keeps_what_it_set_before_the_start(void **state)
{
	int status;

	(void)state;
	if (fork() == 0) {
		CHECK(tek_uthread_key_create(&keys[0], NULL) == 0);
		CHECK(tek_uthread_key_set(keys[0], &keys) == 0);
		CHECK(tek_uthread_start("workers=2", NULL) == 0);
		CHECK(tek_uthread_key_get(keys[0]) == &keys);
		tek_uthread_sleep(1000000);
		CHECK(tek_uthread_key_get(keys[0]) == &keys);
		_exit(0);
	}
	assert_true(wait(&status) > 0);
	assert_int_equal(status, 0);
}

static void *set_as_kernel_thread(void *argument)
{
	CHECK(tek_uthread_key_set(keys[0], argument) == 0);
	CHECK(tek_uthread_key_get(keys[0]) == argument);
	return NULL;
}

static void use_in_kernel_threads(void)
{
	CHECK(tek_uthread_key_create(&keys[0], count_destroyed) == 0);
	for (int i = 0; i < 50; i++)
		pthread_join(begin_kernel_thread(set_as_kernel_thread, &keys), NULL);
	CHECK(atomic_load(&destroyed) == 50);
}

static void kernel_threads_have_values_too(void **state)
{
	(void)state;
	in_engine("workers=1,foreign", use_in_kernel_threads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_thread_has_values_of_its_own_and_destroys_them),
		cmocka_unit_test(destructors_that_set_values_are_called_four_times),
		cmocka_unit_test(a_key_takes_its_values_along),
		cmocka_unit_test(the_first_thread_keeps_what_it_set_before_the_start),
		cmocka_unit_test(kernel_threads_have_values_too),
	};
	return cmocka_run_group_tests_name("uthread key", tests, NULL, NULL);
}
