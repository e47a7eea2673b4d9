/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Fast threads that wait for condition variables, beside ordinary ones. */
#include "inherit_support.h"

#include "base/clock.h"
#include "inherit/cond.h"

#include <dlfcn.h>

/* A thread that waits until the number is not 0, takes one from it, and unlocks. */
struct taker {
	pthread_t thread;
	struct shelf *shelf;
	int priority; /* of SCHED_TEK; NOT_FAST: none */
	long timeout_ms;
	int error;
	_Atomic pid_t tid;
	_Atomic int place; /* in the order of taking, from 1 */
};

enum { NOT_FAST = 100 };

struct shelf {
	pthread_mutex_t mutex;
	pthread_cond_t filled;
	int number, taken;
};

struct holder {
	pthread_mutex_t *mutex;
	_Atomic pid_t tid;
	_Atomic bool goes_on;
};

static struct shelf new_shelf(void)
{
	return (struct shelf){.mutex = PTHREAD_MUTEX_INITIALIZER,
			      .filled = PTHREAD_COND_INITIALIZER};
}

static void *taker_main(void *argument)
{
	struct taker *taker = argument;
	struct shelf *shelf = taker->shelf;
	const struct timespec end = in_ms(CLOCK_REALTIME, taker->timeout_ms);

	if (taker->priority != NOT_FAST)
		set_tek(pthread_self(), taker->priority);
	pthread_mutex_lock(&shelf->mutex);
	taker->tid = own_tid();
	while (!taker->error && !shelf->number)
		taker->error = taker->timeout_ms
				       ? pthread_cond_timedwait(&shelf->filled, &shelf->mutex, &end)
				       : pthread_cond_wait(&shelf->filled, &shelf->mutex);
	if (!taker->error) {
		shelf->number--;
		taker->place = ++shelf->taken;
	}
	pthread_mutex_unlock(&shelf->mutex);
	return NULL;
}

/* Returns when it waits. */
static void start(struct taker *taker)
{
	assert_int_equal(pthread_create(&taker->thread, NULL, taker_main, taker), 0);
	await(&taker->tid);
	pthread_mutex_lock(&taker->shelf->mutex);
	pthread_mutex_unlock(&taker->shelf->mutex);
}

static void end(struct taker *taker)
{
	pthread_join(taker->thread, NULL);
}

static void put(struct shelf *shelf, int number)
{
	pthread_mutex_lock(&shelf->mutex);
	shelf->number += number;
	pthread_cond_signal(&shelf->filled);
	pthread_mutex_unlock(&shelf->mutex);
}

static void a_signalling_thread_is_lifted_while_it_holds_the_mutex(void **state)
{
	(void)state;
	need_real_time();
	struct shelf shelf = new_shelf();
	struct taker taker = {.shelf = &shelf, .priority = 0};

	start(&taker);
	pthread_mutex_lock(&shelf.mutex);
	shelf.number = 1;
	assert_false(is_fast(own_tid()));
	pthread_cond_signal(&shelf.filled);
	assert_true(becomes(own_tid(), true));
	pthread_mutex_unlock(&shelf.mutex);
	assert_false(is_fast(own_tid()));
	end(&taker);
	assert_int_equal(taker.error, 0);
}

static void a_waiter_whose_time_is_over_lifts_the_holder_of_the_mutex(void **state)
{
	(void)state;
	need_real_time();
	struct shelf shelf = new_shelf();
	struct taker taker = {.shelf = &shelf, .priority = 0, .timeout_ms = 50};

	start(&taker);
	pthread_mutex_lock(&shelf.mutex);
	assert_true(becomes(own_tid(), true));
	pthread_mutex_unlock(&shelf.mutex);
	end(&taker);
	assert_int_equal(taker.error, ETIMEDOUT);
}

static void *hold_until_it_goes_on(void *argument)
{
	struct holder *holder = argument;

	pthread_mutex_lock(holder->mutex);
	holder->tid = own_tid();
	while (!holder->goes_on)
		sleep_ms(1);
	pthread_mutex_unlock(holder->mutex);
	return NULL;
}

static void a_signal_without_the_mutex_lifts_the_thread_that_holds_it(void **state)
{
	(void)state;
	need_real_time();
	struct shelf shelf = new_shelf();
	struct taker taker = {.shelf = &shelf, .priority = 0};
	struct holder holder = {.mutex = &shelf.mutex};
	pthread_t thread;

	start(&taker);
	assert_int_equal(pthread_create(&thread, NULL, hold_until_it_goes_on, &holder), 0);
	await(&holder.tid);
	assert_false(is_fast(holder.tid));
	shelf.number = 1;
	pthread_cond_signal(&shelf.filled);
	assert_true(becomes(holder.tid, true));
	assert_false(is_fast(own_tid()));
	holder.goes_on = true;
	pthread_join(thread, NULL);
	end(&taker);
	assert_int_equal(taker.error, 0);
}

/*
 * Whether the calling thread has the mutex again before the thread that it has woken, and while the
 * mark is believed in any case.
 */
static bool is_first_again(struct shelf *shelf)
{
	struct taker taker = {.shelf = shelf, .priority = 0};
	bool first;

	start(&taker);
	pthread_mutex_lock(&shelf->mutex);
	shelf->number = 1;
	const uint64_t began = tek__now(CLOCK_MONOTONIC);
	pthread_cond_signal(&shelf->filled);
	pthread_mutex_unlock(&shelf->mutex);
	pthread_mutex_lock(&shelf->mutex);
	first = !taker.place && tek__now(CLOCK_MONOTONIC) - began < TEK_COND_BELIEVED_NS;
	if (first)
		assert_true(is_fast(own_tid()));
	pthread_mutex_unlock(&shelf->mutex);
	assert_false(is_fast(own_tid()));
	end(&taker);
	return first;
}

static void a_thread_that_locks_the_mutex_before_the_woken_one_is_lifted(void **state)
{
	enum { MOST_ROUNDS = 200 };

	(void)state;
	need_real_time();
	struct shelf shelf = new_shelf();
	bool found = false;
	for (int i = 0; i < MOST_ROUNDS && !found; i++)
		found = is_first_again(&shelf);
	if (!found)
		skip(); /* the woken thread runs at once, in place of this one */
}

/*
 * Whether nobody is lifted some time after a signal that woke another thread: the C library wakes
 * the threads that waited at its last signal before those that came later.
 */
static bool mark_ends(void)
{
	struct shelf shelf = new_shelf();
	struct taker early[] = {{.shelf = &shelf, .priority = NOT_FAST},
				{.shelf = &shelf, .priority = NOT_FAST}};
	struct taker late = {.shelf = &shelf, .priority = 0};

	start(&early[0]);
	start(&early[1]);
	put(&shelf, 1);
	while (!early[0].place && !early[1].place)
		sleep_ms(1);
	start(&late);
	put(&shelf, 1);
	end(&early[0]);
	end(&early[1]);
	sleep_ms(5);
	pthread_mutex_lock(&shelf.mutex);
	const bool lifted = is_fast(own_tid());
	pthread_mutex_unlock(&shelf.mutex);
	put(&shelf, 1);
	end(&late);
	return !lifted && late.place == 3;
}

static void a_signal_that_wakes_another_thread_lifts_nobody_later(void **state)
{
	(void)state;
	need_real_time();
	assert_true(mark_ends());
}

static char empty_directory[] = "/tmp/tek-XXXXXX";

static int mark_ends_without_proc(void)
{
	return chroot(empty_directory) || !mark_ends();
}

static void without_proc_it_lifts_nobody_later_either(void **state)
{
	(void)state;
	need_real_time();
	if (geteuid() != 0)
		skip();
	assert_non_null(mkdtemp(empty_directory));
	int status = in_child(mark_ends_without_proc);
	rmdir(empty_directory);
	assert_int_equal(status, 0);
}

/* Such a signal lifts nobody, but it is a signal. */
static void signals_by_an_address_in_the_c_library_wake_fast_threads(void **state)
{
	(void)state;
	need_real_time();
	static const char *const names[] = {"pthread_cond_signal", "pthread_cond_broadcast"};
	struct shelf shelf = new_shelf();
	void *library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	assert_non_null(library);
	for (int i = 0; i < 2; i++) {
		struct taker taker = {.shelf = &shelf, .priority = 0};
		int (*wake)(pthread_cond_t *) = (int (*)(pthread_cond_t *))dlsym(library, names[i]);
		assert_non_null(wake);
		start(&taker);
		pthread_mutex_lock(&shelf.mutex);
		shelf.number = 1;
		wake(&shelf.filled);
		pthread_mutex_unlock(&shelf.mutex);
		end(&taker);
		assert_int_equal(taker.error, 0);
	}
	dlclose(library);
}

static void a_broadcast_wakes_all_threads(void **state)
{
	(void)state;
	need_real_time();
	struct shelf shelf = new_shelf();
	struct taker takers[6];

	for (int i = 0; i < 6; i++) {
		takers[i] = (struct taker){.shelf = &shelf, .priority = i % 2 ? NOT_FAST : 0};
		start(&takers[i]);
	}
	pthread_mutex_lock(&shelf.mutex);
	shelf.number = 6;
	pthread_cond_broadcast(&shelf.filled);
	pthread_mutex_unlock(&shelf.mutex);
	for (int i = 0; i < 6; i++)
		end(&takers[i]);
	assert_int_equal(shelf.number, 0);
}

static void mutex_is_locked_in_clean_up(void *argument)
{
	struct shelf *shelf = argument;

	shelf->taken = pthread_mutex_trylock(&shelf->mutex) == EBUSY;
	pthread_mutex_unlock(&shelf->mutex);
}

static void *wait_to_be_cancelled(void *argument)
{
	struct taker *taker = argument;

	set_tek(pthread_self(), 0);
	pthread_mutex_lock(&taker->shelf->mutex);
	pthread_cleanup_push(mutex_is_locked_in_clean_up, taker->shelf);
	taker->tid = own_tid();
	for (;;)
		pthread_cond_wait(&taker->shelf->filled, &taker->shelf->mutex);
	pthread_cleanup_pop(0);
	return NULL;
}

static void a_cancelled_thread_holds_the_mutex_in_its_clean_up(void **state)
{
	(void)state;
	need_real_time();
	struct shelf shelf = new_shelf();
	struct taker cancelled = {.shelf = &shelf};
	void *result;

	assert_int_equal(pthread_create(&cancelled.thread, NULL, wait_to_be_cancelled, &cancelled),
			 0);
	await(&cancelled.tid);
	assert_true(sleeps(cancelled.tid));
	pthread_cancel(cancelled.thread);
	pthread_join(cancelled.thread, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_int_equal(shelf.taken, 1);
	/* It waits no more: the signal is another thread's. */
	struct taker taker = {.shelf = &shelf, .priority = NOT_FAST};
	start(&taker);
	put(&shelf, 1);
	end(&taker);
	assert_int_equal(taker.error, 0);
}

static void times_are_of_the_clock_that_was_chosen(void **state)
{
	(void)state;
	need_real_time();
	pthread_condattr_t attr;
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond;
	const struct timespec wrong = {.tv_nsec = 1000000000};

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&cond, &attr);
	pthread_condattr_destroy(&attr);
	assert_int_equal(set_tek(pthread_self(), 0), 0);
	pthread_mutex_lock(&mutex);
	struct timespec time = in_ms(CLOCK_MONOTONIC, 20);
	assert_int_equal(pthread_cond_timedwait(&cond, &mutex, &time), ETIMEDOUT);
	struct timespec now = in_ms(CLOCK_MONOTONIC, 0);
	assert_true(now.tv_sec > time.tv_sec ||
		    (now.tv_sec == time.tv_sec && now.tv_nsec >= time.tv_nsec));
	time = in_ms(CLOCK_REALTIME, 20);
	assert_int_equal(pthread_cond_clockwait(&cond, &mutex, CLOCK_REALTIME, &time), ETIMEDOUT);
	assert_int_equal(pthread_cond_timedwait(&cond, &mutex, &wrong), EINVAL);
	pthread_mutex_unlock(&mutex);
	assert_int_equal(set_other(pthread_self()), 0);
	pthread_cond_destroy(&cond);
}

static void a_mutex_that_is_not_locked_is_an_error(void **state)
{
	(void)state;
	need_real_time();
	pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

	assert_int_equal(set_tek(pthread_self(), 0), 0);
	assert_int_equal(pthread_cond_wait(&cond, &mutex), EPERM);
	assert_int_equal(set_other(pthread_self()), 0);
}

static void condition_variables_of_several_processes_wake_fast_threads(void **state)
{
	(void)state;
	need_real_time();
	struct shelf shelf = new_shelf();
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&shelf.filled, &attr);
	pthread_condattr_destroy(&attr);
	struct taker taker = {.shelf = &shelf, .priority = 0};
	start(&taker);
	put(&shelf, 1);
	end(&taker);
	assert_int_equal(taker.error, 0);
	pthread_cond_destroy(&shelf.filled);
}

/* Producers and consumers of both kinds; half of the waits end by their time. */
struct market {
	struct shelf shelf;
	_Atomic int sold, bought;
};

enum { GOODS = 3000, TRADERS = 8 };

static void *produce(void *argument)
{
	struct market *market = argument;

	for (;;) {
		pthread_mutex_lock(&market->shelf.mutex);
		const bool is_done = market->sold == GOODS;
		market->sold += !is_done;
		market->shelf.number += !is_done;
		pthread_mutex_unlock(&market->shelf.mutex);
		pthread_cond_signal(&market->shelf.filled);
		if (is_done)
			return NULL;
	}
}

static void consume(struct market *market, bool waits_long)
{
	struct shelf *shelf = &market->shelf;

	pthread_mutex_lock(&shelf->mutex);
	while (market->bought < GOODS) {
		if (shelf->number) {
			shelf->number--;
			market->bought++;
			continue;
		}
		const struct timespec soon = in_ms(CLOCK_REALTIME, waits_long ? 1000 : 1);
		pthread_cond_timedwait(&shelf->filled, &shelf->mutex, &soon);
	}
	pthread_mutex_unlock(&shelf->mutex);
	pthread_cond_broadcast(&shelf->filled);
}

static void *consume_as_fast(void *market)
{
	set_tek(pthread_self(), 0);
	consume(market, true);
	return NULL;
}

static void *consume_as_ordinary(void *market)
{
	consume(market, false);
	return NULL;
}

static void no_signal_is_lost_among_fast_and_ordinary_threads(void **state)
{
	(void)state;
	need_real_time();
	struct market market = {.shelf = new_shelf()};
	pthread_t threads[TRADERS];

	for (int i = 0; i < TRADERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
						i % 4 == 0   ? consume_as_fast
						: i % 4 == 1 ? consume_as_ordinary
							     : produce,
						&market),
				 0);
	for (int i = 0; i < TRADERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(market.bought, GOODS);
	assert_int_equal(market.shelf.number, 0);
	assert_false(is_fast(own_tid()));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_signalling_thread_is_lifted_while_it_holds_the_mutex),
		cmocka_unit_test(a_waiter_whose_time_is_over_lifts_the_holder_of_the_mutex),
		cmocka_unit_test(a_signal_without_the_mutex_lifts_the_thread_that_holds_it),
		cmocka_unit_test(a_thread_that_locks_the_mutex_before_the_woken_one_is_lifted),
		cmocka_unit_test(a_signal_that_wakes_another_thread_lifts_nobody_later),
		cmocka_unit_test(without_proc_it_lifts_nobody_later_either),
		cmocka_unit_test(signals_by_an_address_in_the_c_library_wake_fast_threads),
		cmocka_unit_test(a_broadcast_wakes_all_threads),
		cmocka_unit_test(a_cancelled_thread_holds_the_mutex_in_its_clean_up),
		cmocka_unit_test(times_are_of_the_clock_that_was_chosen),
		cmocka_unit_test(a_mutex_that_is_not_locked_is_an_error),
		cmocka_unit_test(condition_variables_of_several_processes_wake_fast_threads),
		cmocka_unit_test(no_signal_is_lost_among_fast_and_ordinary_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
