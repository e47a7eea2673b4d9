/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that hold a read-write lock for which a Fast thread waits are lifted. */
#include "inherit_support.h"

/* A thread that takes the lock, and keeps it until it is told. */
struct holder {
	pthread_t thread;
	pthread_rwlock_t *lock;
	bool writes, is_fast;
	_Atomic pid_t tid, holds;
	_Atomic bool may_go;
};

static void *holder_main(void *argument)
{
	struct holder *holder = argument;

	if (holder->is_fast)
		set_tek(pthread_self(), 0);
	holder->tid = own_tid();
	if (holder->writes)
		pthread_rwlock_wrlock(holder->lock);
	else
		pthread_rwlock_rdlock(holder->lock);
	holder->holds = own_tid();
	while (!holder->may_go)
		sleep_ms(1);
	pthread_rwlock_unlock(holder->lock);
	holder->holds = 0;
	while (is_fast(own_tid()) && !holder->is_fast)
		sleep_ms(1);
	return NULL;
}

static void start(struct holder *holder)
{
	assert_int_equal(pthread_create(&holder->thread, NULL, holder_main, holder), 0);
	await(&holder->tid);
}

static void start_and_hold(struct holder *holder)
{
	start(holder);
	await(&holder->holds);
}

static void end(struct holder *holder)
{
	holder->may_go = true;
	pthread_join(holder->thread, NULL);
}

static void a_writer_is_lifted_for_a_reader_and_for_a_writer(void **state)
{
	(void)state;
	need_real_time();
	for (int writes = 0; writes < 2; writes++) {
		pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
		struct holder writer = {.lock = &lock, .writes = true};
		struct holder waiter = {.lock = &lock, .writes = writes, .is_fast = true};

		start_and_hold(&writer);
		start(&waiter);
		assert_true(becomes(writer.tid, true));
		end(&writer);
		end(&waiter);
	}
}

static void all_readers_are_lifted_for_a_writer(void **state)
{
	(void)state;
	need_real_time();
	enum { READERS = 3 };
	pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
	struct holder readers[READERS] = {{.lock = &lock}, {.lock = &lock}, {.lock = &lock}};
	struct holder writer = {.lock = &lock, .writes = true, .is_fast = true};

	for (int i = 0; i < READERS; i++)
		start_and_hold(&readers[i]);
	start(&writer);
	for (int i = 0; i < READERS; i++)
		assert_true(becomes(readers[i].tid, true));
	/* One that has unlocked is lifted no more, though the others still are. */
	end(&readers[0]);
	assert_true(is_fast(readers[1].tid));
	end(&readers[1]);
	end(&readers[2]);
	end(&writer);
}

static void a_reader_that_is_not_waited_for_is_not_lifted(void **state)
{
	(void)state;
	need_real_time();
	pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER, other = PTHREAD_RWLOCK_INITIALIZER;
	struct holder reader = {.lock = &lock}, elsewhere = {.lock = &other};
	struct holder writer = {.lock = &lock, .writes = true, .is_fast = true};

	start_and_hold(&elsewhere);
	start_and_hold(&reader);
	start(&writer);
	assert_true(becomes(reader.tid, true));
	assert_false(is_fast(elsewhere.tid));
	end(&reader);
	end(&elsewhere);
	end(&writer);
}

static void errors_are_those_of_the_c_library(void **state)
{
	(void)state;
	pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
	const struct timespec soon = in_ms(CLOCK_REALTIME, 10), wrong = {.tv_nsec = -1};
	struct holder writer = {.lock = &lock, .writes = true};

	start_and_hold(&writer);
	assert_int_equal(pthread_rwlock_tryrdlock(&lock), EBUSY);
	assert_int_equal(pthread_rwlock_timedrdlock(&lock, &soon), ETIMEDOUT);
	assert_int_equal(pthread_rwlock_timedwrlock(&lock, &soon), ETIMEDOUT);
	assert_int_equal(pthread_rwlock_timedrdlock(&lock, &wrong), EINVAL);
	end(&writer);
	assert_int_equal(pthread_rwlock_wrlock(&lock), 0);
	assert_int_equal(pthread_rwlock_wrlock(&lock), EDEADLK);
	assert_int_equal(pthread_rwlock_rdlock(&lock), EDEADLK);
	assert_int_equal(pthread_rwlock_unlock(&lock), 0);
}

static void more_locks_than_the_list_has_places_can_be_read(void **state)
{
	(void)state;
	enum { LOCKS = 12 };
	pthread_rwlock_t locks[LOCKS];

	for (int i = 0; i < LOCKS; i++) {
		pthread_rwlock_init(&locks[i], NULL);
		assert_int_equal(pthread_rwlock_rdlock(&locks[i]), 0);
		assert_int_equal(pthread_rwlock_rdlock(&locks[i]), 0);
	}
	for (int i = 0; i < LOCKS; i++) {
		assert_int_equal(pthread_rwlock_unlock(&locks[i]), 0);
		assert_int_equal(pthread_rwlock_unlock(&locks[i]), 0);
		assert_int_equal(pthread_rwlock_trywrlock(&locks[i]), 0);
		assert_int_equal(pthread_rwlock_unlock(&locks[i]), 0);
		pthread_rwlock_destroy(&locks[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_writer_is_lifted_for_a_reader_and_for_a_writer),
		cmocka_unit_test(all_readers_are_lifted_for_a_writer),
		cmocka_unit_test(a_reader_that_is_not_waited_for_is_not_lifted),
		cmocka_unit_test(errors_are_those_of_the_c_library),
		cmocka_unit_test(more_locks_than_the_list_has_places_can_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
