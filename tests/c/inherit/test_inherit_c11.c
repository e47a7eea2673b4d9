/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Locks, condition variables and threads of threads.h. */
#include "inherit_support.h"

#include <threads.h>

struct box {
	mtx_t mutex;
	cnd_t filled;
	bool is_full;
	_Atomic pid_t waiter;
	int error;
};

static void new_box(struct box *box)
{
	*box = (struct box){.error = thrd_success};
	assert_int_equal(mtx_init(&box->mutex, mtx_timed), thrd_success);
	assert_int_equal(cnd_init(&box->filled), thrd_success);
}

static void end_box(struct box *box, thrd_t thread)
{
	assert_int_equal(thrd_join(thread, NULL), thrd_success);
	assert_int_equal(box->error, thrd_success);
	cnd_destroy(&box->filled);
	mtx_destroy(&box->mutex);
}

static int lock_as_fast(void *argument)
{
	struct box *box = argument;

	set_tek(pthread_self(), 0);
	box->error = mtx_lock(&box->mutex);
	mtx_unlock(&box->mutex);
	return 0;
}

static int lock_with_a_time_as_fast(void *argument)
{
	struct box *box = argument;
	const struct timespec end = in_ms(CLOCK_REALTIME, 2 * PATIENCE_MS);

	set_tek(pthread_self(), 0);
	box->error = mtx_timedlock(&box->mutex, &end);
	mtx_unlock(&box->mutex);
	return 0;
}

static void lifts_the_holder(int (*lock)(void *))
{
	struct box box;
	thrd_t thread;

	new_box(&box);
	mtx_lock(&box.mutex);
	assert_int_equal(thrd_create(&thread, lock, &box), thrd_success);
	assert_true(becomes(own_tid(), true));
	mtx_unlock(&box.mutex);
	assert_false(is_fast(own_tid()));
	end_box(&box, thread);
}

static void the_holder_of_a_mutex_is_lifted(void **state)
{
	(void)state;
	need_real_time();
	lifts_the_holder(lock_as_fast);
	lifts_the_holder(lock_with_a_time_as_fast);
}

static int take_as_fast(void *argument)
{
	struct box *box = argument;

	set_tek(pthread_self(), 0);
	mtx_lock(&box->mutex);
	box->waiter = own_tid();
	while (!box->is_full && box->error == thrd_success)
		box->error = cnd_wait(&box->filled, &box->mutex);
	mtx_unlock(&box->mutex);
	return 0;
}

static void a_signalling_thread_is_lifted(void **state)
{
	(void)state;
	need_real_time();
	struct box box;
	thrd_t thread;

	for (int i = 0; i < 2; i++) {
		new_box(&box);
		assert_int_equal(thrd_create(&thread, take_as_fast, &box), thrd_success);
		await(&box.waiter);
		mtx_lock(&box.mutex);
		box.is_full = true;
		assert_int_equal(i ? cnd_broadcast(&box.filled) : cnd_signal(&box.filled),
				 thrd_success);
		assert_true(becomes(own_tid(), true));
		mtx_unlock(&box.mutex);
		assert_false(is_fast(own_tid()));
		end_box(&box, thread);
	}
}

static int compute_until_lifted(void *unused)
{
	(void)unused;
	return becomes(own_tid(), true) ? 7 : 8;
}

static void a_thread_is_lifted_while_a_fast_one_joins_it(void **state)
{
	(void)state;
	need_real_time();
	thrd_t thread;
	int result = 0;

	assert_int_equal(set_tek(pthread_self(), 0), 0);
	assert_int_equal(thrd_create(&thread, compute_until_lifted, NULL), thrd_success);
	assert_int_equal(thrd_join(thread, &result), thrd_success);
	assert_int_equal(set_other(pthread_self()), 0);
	assert_int_equal(result, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_holder_of_a_mutex_is_lifted),
		cmocka_unit_test(a_signalling_thread_is_lifted),
		cmocka_unit_test(a_thread_is_lifted_while_a_fast_one_joins_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
