/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread_objects.h"

enum { THREADS = 7, ROUNDS = 500 };

static tek_uthread_barrier_t barrier;
static atomic_uint arrived[ROUNDS], serial;

static void *meet(void *argument)
{
	for (int i = 0; i < ROUNDS; i++) {
		atomic_fetch_add(&arrived[i], 1);
		int result = tek_uthread_barrier_wait(&barrier);
		CHECK(result == 0 || result == TEK_UTHREAD_BARRIER_SERIAL_THREAD);
		if (result)
			atomic_fetch_add(&serial, 1);
		CHECK(atomic_load(&arrived[i]) == THREADS);
		CHECK(i + 1 == ROUNDS || atomic_load(&arrived[i + 1]) < THREADS);
		if ((uintptr_t)argument == (uintptr_t)i % THREADS)
			tek_uthread_yield();
	}
	return NULL;
}

static void meet_often(void)
{
	CHECK(tek_uthread_barrier_init(&barrier, THREADS) == 0);
	run_threads(THREADS, meet);
	CHECK(atomic_load(&serial) == ROUNDS);
	CHECK(tek_uthread_barrier_destroy(&barrier) == 0);
}

static void nobody_passes_before_all_are_there(void **state)
{
	(void)state;
	in_all_engines(meet_often);
}

static void *wait_once(void *argument)
{
	tek_uthread_barrier_wait(argument);
	return NULL;
}

static void make_errors(void)
{
	CHECK(tek_uthread_barrier_init(&barrier, 0) == EINVAL);
	CHECK(tek_uthread_barrier_init(&barrier, 1) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(tek_uthread_barrier_wait(&barrier) == TEK_UTHREAD_BARRIER_SERIAL_THREAD);
	CHECK(tek_uthread_barrier_init(&barrier, 2) == 0);
	tek_uthread_t thread = begin(wait_once, &barrier);
	WAIT_UNTIL(barrier.first_);
	CHECK(tek_uthread_barrier_destroy(&barrier) == EBUSY);
	CHECK(tek_uthread_barrier_wait(&barrier) == TEK_UTHREAD_BARRIER_SERIAL_THREAD);
	end_of(thread);
	CHECK(tek_uthread_barrier_destroy(&barrier) == 0);
}

static void errors_are_found(void **state)
{
	(void)state;
	in_all_engines(make_errors);
}

/* The first thread to leave frees it, while the other threads are leaving it. */
struct freed {
	tek_uthread_barrier_t barrier;
	atomic_int *out;
};

static void *meet_and_free(void *argument)
{
	struct freed *freed = argument;
	atomic_int *out = freed->out;

	if (tek_uthread_barrier_wait(&freed->barrier) == TEK_UTHREAD_BARRIER_SERIAL_THREAD) {
		CHECK(tek_uthread_barrier_destroy(&freed->barrier) == 0);
	}
	/* The last one out: no thread uses it any more. */
	if (atomic_fetch_sub(out, 1) == 1) {
		memset(freed, 0xff, sizeof(*freed));
		free(freed);
		free(out);
	}
	return NULL;
}

static void meet_once_each(void)
{
	for (int i = 0; i < 1000; i++) {
		struct freed *freed = malloc(sizeof(*freed));
		freed->out = malloc(sizeof(*freed->out));
		atomic_store(freed->out, 3);
		CHECK(tek_uthread_barrier_init(&freed->barrier, 3) == 0);
		tek_uthread_t one = begin(meet_and_free, freed),
			      other = begin(meet_and_free, freed);
		meet_and_free(freed);
		end_of(one);
		end_of(other);
	}
}

static void it_may_be_freed_when_the_last_one_is_out(void **state)
{
	(void)state;
	in_all_engines(meet_once_each);
}

/* The first thread to leave destroys it and reuses its memory, while the other threads leave it. */
static struct {
	tek_uthread_barrier_t barrier;
	atomic_int out;
} reused;

static void *meet_and_reuse(void *argument)
{
	(void)argument;
	tek_uthread_barrier_wait(&reused.barrier);
	if (atomic_fetch_add(&reused.out, 1) == 0) {
		CHECK(tek_uthread_barrier_destroy(&reused.barrier) == 0);
		memset(&reused.barrier, 0xff, sizeof(reused.barrier));
	}
	return NULL;
}

static void reuse_often(void)
{
	for (int i = 0; i < 1000; i++) {
		atomic_store(&reused.out, 0);
		CHECK(tek_uthread_barrier_init(&reused.barrier, 4) == 0);
		run_threads(4, meet_and_reuse);
	}
}

static void a_thread_that_comes_out_first_may_destroy_it(void **state)
{
	(void)state;
	in_all_engines(reuse_often);
}

static void wait_for_none(void)
{
	tek_uthread_barrier_t none;

	memset(&none, 0, sizeof(none));
	CHECK(tek_uthread_barrier_wait(&none) == EINVAL);
	memset(&none, 0xff, sizeof(none));
	CHECK(tek_uthread_barrier_wait(&none) == EINVAL);
}

static void one_that_was_not_initialised_is_refused(void **state)
{
	(void)state;
	in_all_engines(wait_for_none);
}

static void meet_kernel_threads(void)
{
	pthread_t kernel[2];

	CHECK(tek_uthread_barrier_init(&barrier, THREADS) == 0);
	for (uintptr_t i = 0; i < 2; i++)
		kernel[i] = begin_kernel_thread(meet, (void *)(i + 1000));
	run_threads(THREADS - 2, meet);
	for (int i = 0; i < 2; i++)
		pthread_join(kernel[i], NULL);
	CHECK(atomic_load(&serial) == ROUNDS);
}

static void kernel_threads_meet_user_level_threads(void **state)
{
	(void)state;
	in_engine("workers=1,quantum=200us,foreign", meet_kernel_threads);
	in_engine("workers=2,quantum=200us,foreign", meet_kernel_threads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_passes_before_all_are_there),
		cmocka_unit_test(errors_are_found),
		cmocka_unit_test(it_may_be_freed_when_the_last_one_is_out),
		cmocka_unit_test(a_thread_that_comes_out_first_may_destroy_it),
		cmocka_unit_test(one_that_was_not_initialised_is_refused),
		cmocka_unit_test(kernel_threads_meet_user_level_threads),
	};
	return cmocka_run_group_tests_name("uthread barrier", tests, NULL, NULL);
}
