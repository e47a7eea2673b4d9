/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread_objects.h"

static tek_uthread_mutex_t mutex;
static tek_uthread_cond_t cond, other_cond;
static int iteration;
static unsigned int waiting, through;
static atomic_bool stop;

enum { ROUNDS = 5000 };

static void *alternate(void *argument)
{
	int mine = (int)(uintptr_t)argument;

	tek_uthread_mutex_lock(&mutex);
	for (int i = 0; i < ROUNDS; i++) {
		while (iteration != mine)
			CHECK(tek_uthread_cond_wait(mine ? &other_cond : &cond, &mutex) == 0);
		iteration = !mine;
		tek_uthread_cond_signal(mine ? &cond : &other_cond);
	}
	tek_uthread_mutex_unlock(&mutex);
	return NULL;
}

static void play_ping_pong(void)
{
	run_threads(2, alternate);
	CHECK(iteration == 0);
	CHECK(tek_uthread_cond_destroy(&cond) == 0 && tek_uthread_cond_destroy(&other_cond) == 0);
}

static void two_threads_alternate(void **state)
{
	(void)state;
	in_all_engines(play_ping_pong);
}

/* ---- a queue with room for a few ---- */

enum { ROOM = 3, ITEMS = 20000, PRODUCERS = 4 };
static unsigned int in_queue, produced;
static unsigned long long sum;

static void *produce(void *argument)
{
	(void)argument;
	for (int i = 0; i < ITEMS / PRODUCERS; i++) {
		tek_uthread_mutex_lock(&mutex);
		while (in_queue == ROOM)
			tek_uthread_cond_wait(&cond, &mutex);
		in_queue++;
		produced++;
		tek_uthread_mutex_unlock(&mutex);
		/* Without the mutex, too, none is lost. */
		tek_uthread_cond_signal(&other_cond);
	}
	return NULL;
}

static void *consume(void *argument)
{
	(void)argument;
	for (int i = 0; i < ITEMS / PRODUCERS; i++) {
		tek_uthread_mutex_lock(&mutex);
		while (in_queue == 0)
			tek_uthread_cond_wait(&other_cond, &mutex);
		in_queue--;
		sum++;
		tek_uthread_cond_signal(&cond);
		tek_uthread_mutex_unlock(&mutex);
	}
	return NULL;
}

static void produce_and_consume(void)
{
	tek_uthread_t threads[2 * PRODUCERS];

	for (int i = 0; i < 2 * PRODUCERS; i++)
		threads[i] = begin(i % 2 ? produce : consume, NULL);
	for (int i = 0; i < 2 * PRODUCERS; i++)
		end_of(threads[i]);
	CHECK(sum == ITEMS && in_queue == 0);
}

static void no_signal_is_lost(void **state)
{
	(void)state;
	in_all_engines(produce_and_consume);
}

/* ---- broadcasts ---- */

enum { CROWD = 50 };

static void *wait_for_round(void *argument)
{
	for (int round = 1; round <= 20; round++) {
		tek_uthread_mutex_lock(&mutex);
		if (++waiting == CROWD)
			tek_uthread_cond_signal(&other_cond);
		while (iteration < round)
			CHECK(tek_uthread_cond_wait(&cond, &mutex) == 0);
		through++;
		if ((uintptr_t)argument % 7 == 0)
			tek_uthread_yield();
		tek_uthread_mutex_unlock(&mutex);
	}
	return NULL;
}

static void free_the_crowd(void)
{
	tek_uthread_t threads[CROWD];

	for (uintptr_t i = 0; i < CROWD; i++)
		threads[i] = begin(wait_for_round, (void *)i);
	for (int round = 1; round <= 20; round++) {
		tek_uthread_mutex_lock(&mutex);
		while (waiting < CROWD)
			tek_uthread_cond_wait(&other_cond, &mutex);
		waiting = 0;
		iteration = round;
		/* With the mutex, or without: waiters are woken in different ways. */
		if (round % 2)
			tek_uthread_cond_broadcast(&cond);
		tek_uthread_mutex_unlock(&mutex);
		if (round % 2 == 0)
			tek_uthread_cond_broadcast(&cond);
	}
	for (int i = 0; i < CROWD; i++)
		end_of(threads[i]);
	CHECK(through == 20 * CROWD);
	CHECK(mutex.state_ == 0 && !cond.first_);
}

static void a_broadcast_reaches_everybody(void **state)
{
	(void)state;
	in_all_engines(free_the_crowd);
}

/* ---- times ---- */

static void *wait_in_vain(void *argument)
{
	uint64_t before = tek__now(CLOCK_MONOTONIC);
	struct timespec soon = after_ms(20);

	(void)argument;
	tek_uthread_mutex_lock(&mutex);
	int error;
	do {
		error = tek_uthread_cond_wait_until(&cond, &mutex, &soon);
	} while (error == 0);
	CHECK(error == ETIMEDOUT);
	CHECK(tek__now(CLOCK_MONOTONIC) - before >= 19000000);
	CHECK(tek_uthread_mutex_trylock(&mutex) == EBUSY);
	tek_uthread_mutex_unlock(&mutex);
	return NULL;
}

static void wait_until_it_is_too_late(void)
{
	struct timespec past = {0, 0}, never = {0, -1};

	tek_uthread_mutex_lock(&mutex);
	CHECK(tek_uthread_cond_wait_until(&cond, &mutex, &past) == ETIMEDOUT);
	CHECK(tek_uthread_cond_wait_until(&cond, &mutex, &never) == EINVAL);
	CHECK(tek_uthread_mutex_trylock(&mutex) == EBUSY);
	tek_uthread_mutex_unlock(&mutex);
	run_threads(4, wait_in_vain);
	CHECK(tek_uthread_cond_destroy(&cond) == 0);
}

static void waiting_ends_at_its_time(void **state)
{
	(void)state;
	in_all_engines(wait_until_it_is_too_late);
}

/* Times so short that broadcasts and giving up meet. */
static void *wait_shortly(void *argument)
{
	tek_uthread_mutex_lock(&mutex);
	while (!atomic_load(&stop)) {
		struct timespec soon = tek__timespec_of(tek__now(CLOCK_MONOTONIC) +
							10000 * (uintptr_t)argument);
		int error = tek_uthread_cond_wait_until(&cond, &mutex, &soon);
		CHECK(error == 0 || error == ETIMEDOUT);
		CHECK(++waiting == 1);
		work(100);
		waiting--;
	}
	tek_uthread_mutex_unlock(&mutex);
	return NULL;
}

static void *broadcast_often(void *argument)
{
	(void)argument;
	while (!atomic_load(&stop)) {
		tek_uthread_mutex_lock(&mutex);
		CHECK(++waiting == 1);
		tek_uthread_cond_broadcast(&cond);
		work(1000);
		waiting--;
		tek_uthread_mutex_unlock(&mutex);
		tek_uthread_yield();
	}
	return NULL;
}

static void give_up_often(void)
{
	tek_uthread_t threads[10];

	for (uintptr_t i = 0; i < 10; i++)
		threads[i] = begin(i < 8 ? wait_shortly : broadcast_often, (void *)i);
	tek_uthread_sleep(300000000);
	atomic_store(&stop, true);
	for (int i = 0; i < 10; i++)
		end_of(threads[i]);
	CHECK(mutex.state_ == 0 && !cond.first_);
}

static void those_that_give_up_and_those_that_are_moved_do_not_mix(void **state)
{
	(void)state;
	in_all_engines(give_up_often);
}

/* ---- kinds of mutexes ---- */

static tek_uthread_mutex_t kinds[3];

static void *signal_with(void *argument)
{
	tek_uthread_mutex_lock(argument);
	iteration = 1;
	CHECK(tek_uthread_cond_broadcast(&cond) == 0);
	tek_uthread_mutex_unlock(argument);
	return NULL;
}

static void wait_with_all_kinds(void)
{
	static const int all[] = {TEK_UTHREAD_MUTEX_RECURSIVE, TEK_UTHREAD_MUTEX_ERRORCHECK,
				  TEK_UTHREAD_MUTEX_ROBUST | TEK_UTHREAD_MUTEX_INHERIT};

	for (int i = 0; i < 3; i++) {
		CHECK(tek_uthread_mutex_init(&kinds[i], all[i]) == 0);
		if (all[i] != TEK_UTHREAD_MUTEX_RECURSIVE)
			CHECK(tek_uthread_cond_wait(&cond, &kinds[i]) == EPERM);
		CHECK(tek_uthread_mutex_lock(&kinds[i]) == 0);
		tek_uthread_t thread = begin(signal_with, &kinds[i]);
		for (iteration = 0; !iteration;)
			CHECK(tek_uthread_cond_wait(&cond, &kinds[i]) == 0);
		CHECK(tek_uthread_mutex_unlock(&kinds[i]) == 0);
		end_of(thread);
		CHECK(tek_uthread_mutex_destroy(&kinds[i]) == 0);
	}
}

static void it_works_with_all_kinds_of_mutexes(void **state)
{
	(void)state;
	in_all_engines(wait_with_all_kinds);
}

/* ---- life, kernel threads ---- */

struct request {
	tek_uthread_mutex_t mutex;
	tek_uthread_cond_t cond;
	bool answered;
};

static void *answer(void *argument)
{
	struct request *request = argument;

	tek_uthread_mutex_lock(&request->mutex);
	request->answered = true;
	tek_uthread_mutex_unlock(&request->mutex);
	return NULL;
}

static void *answer_with_signal(void *argument)
{
	struct request *request = argument;

	tek_uthread_mutex_lock(&request->mutex);
	request->answered = true;
	tek_uthread_cond_signal(&request->cond);
	tek_uthread_mutex_unlock(&request->mutex);
	return NULL;
}

static void ask(void)
{
	for (int i = 0; i < 2000; i++) {
		struct request *request = calloc(1, sizeof(*request));
		tek_uthread_t thread = begin(i % 5 ? answer_with_signal : answer, request);
		tek_uthread_mutex_lock(&request->mutex);
		while (!request->answered) {
			struct timespec soon = after_ms(1);
			tek_uthread_cond_wait_until(&request->cond, &request->mutex, &soon);
		}
		tek_uthread_mutex_unlock(&request->mutex);
		memset(request, 0xff, sizeof(*request));
		free(request);
		end_of(thread);
	}
}

static void a_thread_that_was_woken_may_free_it(void **state)
{
	(void)state;
	in_all_engines(ask);
}

/* ---- destroyed as soon as the last waiter is woken ---- */

enum { WAITERS = 6 };

static struct {
	tek_uthread_mutex_t mutex;
	tek_uthread_cond_t cond;
	int waiting, through;
	bool over;
} reused;

static void *wait_until_it_is_over(void *argument)
{
	const bool timed = (uintptr_t)argument % 2;

	tek_uthread_mutex_lock(&reused.mutex);
	reused.waiting++;
	while (!reused.over) {
		/* Some waits time out just when the broadcast comes, and begin again. */
		struct timespec soon = tek__timespec_of(tek__now(CLOCK_MONOTONIC) +
							3000 * (uintptr_t)argument);
		int error = timed ? tek_uthread_cond_wait_until(&reused.cond, &reused.mutex, &soon)
				  : tek_uthread_cond_wait(&reused.cond, &reused.mutex);
		CHECK(error == 0 || error == ETIMEDOUT);
	}
	reused.through++;
	tek_uthread_mutex_unlock(&reused.mutex);
	return NULL;
}

/* After a broadcast no thread waits any more, though none of the waiters may have run since. */
static void broadcast_and_destroy(void)
{
	for (int i = 0; i < 300; i++) {
		tek_uthread_t threads[WAITERS];

		memset(&reused, 0, sizeof(reused));
		CHECK(tek_uthread_mutex_init(&reused.mutex,
					     i % 3 == 0 ? TEK_UTHREAD_MUTEX_ERRORCHECK
							: TEK_UTHREAD_MUTEX_NORMAL) == 0);
		for (uintptr_t j = 0; j < WAITERS; j++)
			threads[j] = begin(wait_until_it_is_over, (void *)j);
		tek_uthread_mutex_lock(&reused.mutex);
		while (reused.waiting < WAITERS) {
			tek_uthread_mutex_unlock(&reused.mutex);
			tek_uthread_yield();
			tek_uthread_mutex_lock(&reused.mutex);
		}
		reused.over = true;
		if (i % 2)
			CHECK(tek_uthread_cond_broadcast(&reused.cond) == 0);
		tek_uthread_mutex_unlock(&reused.mutex);
		if (i % 2 == 0)
			CHECK(tek_uthread_cond_broadcast(&reused.cond) == 0);
		CHECK(tek_uthread_cond_destroy(&reused.cond) == 0);
		memset(&reused.cond, 0xff, sizeof(reused.cond));
		for (int j = 0; j < WAITERS; j++)
			end_of(threads[j]);
		CHECK(reused.through == WAITERS);
	}
}

static void it_can_be_destroyed_right_after_a_broadcast(void **state)
{
	(void)state;
	in_all_engines(broadcast_and_destroy);
}

static void destroy_while_one_waits(void)
{
	tek_uthread_t thread = begin(wait_until_it_is_over, (void *)0);

	WAIT_UNTIL(reused.cond.first_);
	CHECK(tek_uthread_cond_destroy(&reused.cond) == EBUSY);
	tek_uthread_mutex_lock(&reused.mutex);
	reused.over = true;
	tek_uthread_cond_signal(&reused.cond);
	tek_uthread_mutex_unlock(&reused.mutex);
	CHECK(tek_uthread_cond_destroy(&reused.cond) == 0);
	end_of(thread);
}

static void it_cannot_be_destroyed_while_somebody_waits(void **state)
{
	(void)state;
	in_all_engines(destroy_while_one_waits);
}

static void play_with_a_kernel_thread(void)
{
	pthread_t kernel = begin_kernel_thread(alternate, (void *)1);
	alternate((void *)0);
	pthread_join(kernel, NULL);
	CHECK(iteration == 0);
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
		cmocka_unit_test(two_threads_alternate),
		cmocka_unit_test(no_signal_is_lost),
		cmocka_unit_test(a_broadcast_reaches_everybody),
		cmocka_unit_test(waiting_ends_at_its_time),
		cmocka_unit_test(those_that_give_up_and_those_that_are_moved_do_not_mix),
		cmocka_unit_test(it_works_with_all_kinds_of_mutexes),
		cmocka_unit_test(a_thread_that_was_woken_may_free_it),
		cmocka_unit_test(it_can_be_destroyed_right_after_a_broadcast),
		cmocka_unit_test(it_cannot_be_destroyed_while_somebody_waits),
		cmocka_unit_test(kernel_threads_and_user_level_threads_wake_each_other),
	};
	return cmocka_run_group_tests_name("uthread cond", tests, NULL, NULL);
}
