/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread_objects.h"

static tek_uthread_rwlock_t rwlock;
static atomic_int readers, writers, most_readers;
static long long counter;
static atomic_uint done;
static atomic_bool stop;

static void read_it(void)
{
	int now = atomic_fetch_add(&readers, 1) + 1;
	CHECK(atomic_load(&writers) == 0);
	if (now > atomic_load(&most_readers))
		atomic_store(&most_readers, now);
	work(50);
	atomic_fetch_sub(&readers, 1);
}

static void write_it(void)
{
	CHECK(atomic_fetch_add(&writers, 1) == 0);
	CHECK(atomic_load(&readers) == 0);
	long long seen = counter;
	work(50);
	counter = seen + 1;
	atomic_fetch_sub(&writers, 1);
}

enum { THREADS = 12, TIMES = 2000 };

static void *read_and_write(void *argument)
{
	uintptr_t number = (uintptr_t)argument;

	for (uintptr_t i = 0; i < TIMES; i++) {
		if ((i + number) % 4 == 0) {
			CHECK(tek_uthread_rwlock_wrlock(&rwlock) == 0);
			write_it();
			if (i % 64 == number)
				tek_uthread_yield();
		} else {
			CHECK(tek_uthread_rwlock_rdlock(&rwlock) == 0);
			if (i % 64 == number)
				tek_uthread_yield();
			read_it();
		}
		CHECK(tek_uthread_rwlock_unlock(&rwlock) == 0);
	}
	return NULL;
}

static void use_it(void)
{
	run_threads(THREADS, read_and_write);
	CHECK(counter == THREADS * TIMES / 4);
	CHECK(rwlock.state_ == 0 && !rwlock.first_);
	CHECK(tek_uthread_rwlock_destroy(&rwlock) == 0);
}

static void use_one_that_prefers_writers(void)
{
	CHECK(tek_uthread_rwlock_init(&rwlock, TEK_UTHREAD_RWLOCK_PREFER_WRITER) == 0);
	use_it();
}

static void writers_are_alone_and_readers_are_not(void **state)
{
	(void)state;
	in_all_engines(use_it);
	in_all_engines(use_one_that_prefers_writers);
}

/* ---- order of the waiters ---- */

static void *write_once(void *argument)
{
	(void)argument;
	CHECK(tek_uthread_rwlock_wrlock(&rwlock) == 0);
	atomic_fetch_add(&done, 1);
	CHECK(tek_uthread_rwlock_unlock(&rwlock) == 0);
	return NULL;
}

static void *read_once(void *argument)
{
	CHECK(tek_uthread_rwlock_rdlock(&rwlock) == 0);
	unsigned int seen = atomic_load(&done);
	CHECK(tek_uthread_rwlock_unlock(&rwlock) == 0);
	return argument ? (void *)(uintptr_t)seen : NULL;
}

static void read_beside_a_writer_that_waits(void)
{
	CHECK(tek_uthread_rwlock_rdlock(&rwlock) == 0);
	tek_uthread_t writer = begin(write_once, NULL);
	WAIT_UNTIL(rwlock.first_);
	CHECK(tek_uthread_rwlock_tryrdlock(&rwlock) == 0);
	CHECK(end_of(begin(read_once, (void *)1)) == NULL);
	CHECK(tek_uthread_rwlock_unlock(&rwlock) == 0);
	CHECK(atomic_load(&done) == 0);
	CHECK(tek_uthread_rwlock_unlock(&rwlock) == 0);
	end_of(writer);
}

static void read_after_a_writer_that_waits(void)
{
	CHECK(tek_uthread_rwlock_init(&rwlock, TEK_UTHREAD_RWLOCK_PREFER_WRITER) == 0);
	CHECK(tek_uthread_rwlock_rdlock(&rwlock) == 0);
	tek_uthread_t writer = begin(write_once, NULL);
	WAIT_UNTIL(rwlock.first_);
	CHECK(tek_uthread_rwlock_tryrdlock(&rwlock) == EBUSY);
	tek_uthread_t reader = begin(read_once, (void *)1);
	tek_uthread_sleep(2000000);
	CHECK(tek_uthread_rwlock_unlock(&rwlock) == 0);
	CHECK(end_of(reader) == (void *)1);
	end_of(writer);
}

static void readers_pass_a_waiting_writer_only_if_they_are_preferred(void **state)
{
	(void)state;
	in_all_engines(read_beside_a_writer_that_waits);
	in_all_engines(read_after_a_writer_that_waits);
}

static atomic_bool writer_gave_up;

static void *write_shortly(void *argument)
{
	struct timespec soon = after_ms(20);

	(void)argument;
	CHECK(tek_uthread_rwlock_wrlock_until(&rwlock, &soon) == ETIMEDOUT);
	atomic_store(&writer_gave_up, true);
	return NULL;
}

/* A reader that waits only because a writer does gets it when that one gives up. */
static void give_up_writing(void)
{
	CHECK(tek_uthread_rwlock_init(&rwlock, TEK_UTHREAD_RWLOCK_PREFER_WRITER) == 0);
	CHECK(tek_uthread_rwlock_rdlock(&rwlock) == 0);
	tek_uthread_t writer = begin(write_shortly, NULL);
	/* On a busy machine the wait may be over before this check. */
	WAIT_UNTIL(rwlock.first_ || atomic_load(&writer_gave_up));
	tek_uthread_t reader = begin(read_once, NULL);
	end_of(reader);
	end_of(writer);
	CHECK(tek_uthread_rwlock_unlock(&rwlock) == 0);
	CHECK(rwlock.state_ == 0);
}

static void a_writer_that_gives_up_lets_readers_pass(void **state)
{
	(void)state;
	in_all_engines(give_up_writing);
}

/* ---- priorities ---- */

struct request {
	bool writes;
	int priority;
};

static atomic_int got;

/* Returns the position at which it got the lock. */
static void *request_it(void *argument)
{
	const struct request *request = argument;

	tek_uthread_set_priority(tek_uthread_self(), request->priority);
	CHECK((request->writes ? tek_uthread_rwlock_wrlock : tek_uthread_rwlock_rdlock)(&rwlock) ==
	      0);
	int place = atomic_fetch_add(&got, 1) + 1;
	CHECK(tek_uthread_rwlock_unlock(&rwlock) == 0);
	return (void *)(intptr_t)place;
}

static bool waits(tek_uthread_t thread)
{
	return ((volatile struct tek_uthread *)thread)->waits_for;
}

static void get_it_by_priority(void)
{
	static struct request requests[] = {
		{false, 0}, {true, 0}, {false, 3}, {true, 3}, {true, 1},
	};
	static const intptr_t places[] = {4, 5, 2, 1, 3};
	tek_uthread_t threads[5];

	CHECK(tek_uthread_rwlock_wrlock(&rwlock) == 0);
	for (int i = 0; i < 5; i++) {
		threads[i] = begin(request_it, &requests[i]);
		WAIT_UNTIL(waits(threads[i]));
	}
	CHECK(tek_uthread_rwlock_unlock(&rwlock) == 0);
	for (int i = 0; i < 5; i++)
		CHECK((intptr_t)end_of(threads[i]) == places[i]);
	CHECK(rwlock.state_ == 0 && !rwlock.first_);
}

static void the_most_urgent_one_that_waits_gets_it_and_among_equals_a_writer(void **state)
{
	(void)state;
	/* With one worker: two waiters that may have it at a time would race for the position. */
	in_engine("workers=1,preempt=off", get_it_by_priority);
	in_engine("workers=1,quantum=1ms,foreign", get_it_by_priority);
}

static void *try_with_priority(void *argument)
{
	tek_uthread_set_priority(tek_uthread_self(), (int)(intptr_t)argument);
	int error = tek_uthread_rwlock_tryrdlock(&rwlock);
	if (!error)
		CHECK(tek_uthread_rwlock_unlock(&rwlock) == 0);
	return (void *)(intptr_t)error;
}

static intptr_t tried_with(int priority)
{
	return (intptr_t)end_of(begin(try_with_priority, (void *)(intptr_t)priority));
}

static void read_beside_an_urgent_writer(void)
{
	static struct request request = {true, 3};

	CHECK(tek_uthread_rwlock_rdlock(&rwlock) == 0);
	CHECK(tried_with(1) == 0);
	tek_uthread_t writer = begin(request_it, &request);
	WAIT_UNTIL(waits(writer));
	CHECK(tried_with(2) == EBUSY);
	CHECK(tried_with(3) == EBUSY);
	CHECK(tried_with(4) == 0);
	CHECK(tried_with(0) == 0); /* as the kind of the lock has it */
	/* A thread that has it already would wait for itself. */
	tek_uthread_set_priority(tek_uthread_self(), 1);
	CHECK(tek_uthread_rwlock_rdlock(&rwlock) == 0);
	CHECK(tek_uthread_rwlock_unlock(&rwlock) == 0);
	CHECK(tek_uthread_rwlock_unlock(&rwlock) == 0);
	end_of(writer);
	CHECK(tried_with(1) == 0);
	CHECK(rwlock.state_ == 0);
}

static void a_reader_waits_for_a_writer_that_is_as_urgent(void **state)
{
	(void)state;
	in_all_engines(read_beside_an_urgent_writer);
}

/* ---- errors ---- */

static void *try_pair(void *argument)
{
	struct timespec past = {0, 0}, never = {0, 1000000000};

	CHECK(tek_uthread_rwlock_tryrdlock(&rwlock) == EBUSY);
	CHECK(tek_uthread_rwlock_trywrlock(&rwlock) == EBUSY);
	CHECK(tek_uthread_rwlock_rdlock_until(&rwlock, &past) == ETIMEDOUT);
	CHECK(tek_uthread_rwlock_wrlock_until(&rwlock, &past) == ETIMEDOUT);
	CHECK(tek_uthread_rwlock_wrlock_until(&rwlock, &never) == EINVAL);
	return argument;
}

static void make_errors(void)
{
	struct timespec never = {0, 1000000000};

	CHECK(tek_uthread_rwlock_init(&rwlock, 7) == EINVAL);
	CHECK(tek_uthread_rwlock_unlock(&rwlock) == EPERM);
	CHECK(tek_uthread_rwlock_wrlock_until(&rwlock, &never) == 0);
	CHECK(tek_uthread_rwlock_wrlock(&rwlock) == EDEADLK);
	CHECK(tek_uthread_rwlock_rdlock(&rwlock) == EDEADLK);
	CHECK(tek_uthread_rwlock_destroy(&rwlock) == EBUSY);
	end_of(begin(try_pair, NULL));
	CHECK(tek_uthread_rwlock_unlock(&rwlock) == 0);
	CHECK(tek_uthread_rwlock_rdlock(&rwlock) == 0);
	CHECK(tek_uthread_rwlock_rdlock(&rwlock) == 0);
	CHECK(tek_uthread_rwlock_trywrlock(&rwlock) == EBUSY);
	CHECK(tek_uthread_rwlock_unlock(&rwlock) == 0);
	CHECK(tek_uthread_rwlock_unlock(&rwlock) == 0);
	CHECK(rwlock.state_ == 0);
}

static void errors_are_found(void **state)
{
	(void)state;
	in_all_engines(make_errors);
}

/* ---- giving up, kernel threads ---- */

static void *use_shortly(void *argument)
{
	uintptr_t number = (uintptr_t)argument;

	for (uintptr_t i = 0; !atomic_load(&stop); i++) {
		struct timespec soon = tek__timespec_of(tek__now(CLOCK_MONOTONIC) +
							10000 * (number % 6));
		bool writes = (i + number) % 3 == 0;
		int error = (writes ? tek_uthread_rwlock_wrlock_until
				    : tek_uthread_rwlock_rdlock_until)(&rwlock, &soon);
		CHECK(error == 0 || error == ETIMEDOUT);
		if (error)
			continue;
		if (writes)
			write_it();
		else
			read_it();
		CHECK(tek_uthread_rwlock_unlock(&rwlock) == 0);
		if (tek_uthread_self())
			tek_uthread_yield();
	}
	return NULL;
}

static void use_shortly_in_ten(void)
{
	tek_uthread_t threads[10];

	for (uintptr_t i = 0; i < 10; i++)
		threads[i] = begin(use_shortly, (void *)i);
	tek_uthread_sleep(200000000);
	atomic_store(&stop, true);
	for (int i = 0; i < 10; i++)
		end_of(threads[i]);
}

static void give_up_often(void)
{
	use_shortly_in_ten();
	CHECK(rwlock.state_ == 0 && !rwlock.first_);
}

static void give_up_often_with_writers_preferred(void)
{
	CHECK(tek_uthread_rwlock_init(&rwlock, TEK_UTHREAD_RWLOCK_PREFER_WRITER) == 0);
	give_up_often();
}

static void no_waiter_is_forgotten_when_other_ones_give_up(void **state)
{
	(void)state;
	in_all_engines(give_up_often);
	in_all_engines(give_up_often_with_writers_preferred);
}

static void use_with_kernel_threads(void)
{
	pthread_t kernel[2];

	for (uintptr_t i = 0; i < 2; i++)
		kernel[i] = begin_kernel_thread(use_shortly, (void *)(i + 5));
	use_shortly_in_ten();
	for (int i = 0; i < 2; i++)
		pthread_join(kernel[i], NULL);
	CHECK(rwlock.state_ == 0 && !rwlock.first_);
}

static void kernel_threads_and_user_level_threads_use_the_same(void **state)
{
	(void)state;
	in_engine("workers=1,quantum=200us,foreign", use_with_kernel_threads);
	in_engine("workers=2,quantum=200us,foreign", use_with_kernel_threads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writers_are_alone_and_readers_are_not),
		cmocka_unit_test(readers_pass_a_waiting_writer_only_if_they_are_preferred),
		cmocka_unit_test(a_writer_that_gives_up_lets_readers_pass),
		cmocka_unit_test(the_most_urgent_one_that_waits_gets_it_and_among_equals_a_writer),
		cmocka_unit_test(a_reader_waits_for_a_writer_that_is_as_urgent),
		cmocka_unit_test(errors_are_found),
		cmocka_unit_test(no_waiter_is_forgotten_when_other_ones_give_up),
		cmocka_unit_test(kernel_threads_and_user_level_threads_use_the_same),
	};
	return cmocka_run_group_tests_name("uthread rwlock", tests, NULL, NULL);
}
