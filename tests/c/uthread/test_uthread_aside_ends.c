/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How waits end, and how soon other threads run, where the kernel refuses more threads. */
#include "aside_support.h"
#include "patience.h"

#include <sched.h>

static void *wait_for_a_while(void *argument)
{
	const struct timespec moment = {.tv_nsec = 20000000};
	struct sembuf operation = {.sem_op = -1};
	struct timespec soon;

	sem_wait(&other_gate);
	soon = in_ms(CLOCK_REALTIME, 20);
	if (pthread_mutex_timedlock(&shared->mutex, &soon) != ETIMEDOUT)
		return argument;
	soon = in_ms(CLOCK_REALTIME, 20);
	if (sem_timedwait(&shared->sem, &soon) == 0 || errno != ETIMEDOUT)
		return argument;
	soon.tv_nsec = -1;
	if (pthread_mutex_timedlock(&shared->mutex, &soon) != EINVAL)
		return argument;
	return semtimedop(set, &operation, 1, &moment) < 0 && errno == EAGAIN ? NULL : argument;
}

static void handle(int number)
{
	(void)number;
}

static void *be_interrupted(void *argument)
{
	sem_wait(&other_gate);
	if (!flock_wait() || errno != EINTR)
		return argument;
	atomic_store(&ended, 1);
	return NULL;
}

static void *be_cancelled(void *argument)
{
	sem_wait(&other_gate);
	sem_wait(&shared->sem);
	return argument;
}

static void without_kernel_threads_waits_end_in_time_and_by_signals_and_cancellation(void **state)
{
	const struct sigaction action = {.sa_handler = handle};
	pthread_t threads[THREADS];

	sigaction(SIGUSR1, &action, NULL);
	have_threads(threads, &mutexes);
	pthread_t timed = start(wait_for_a_while, state);
	pthread_t interrupted = start(be_interrupted, state);
	pthread_t cancelled = start(be_cancelled, state);
	flock_hold();
	let_them_wait();
	for (int i = 0; i < 3; i++)
		sem_post(&other_gate);
	assert_null(result_of(timed));
	/* It may not have come to the wait yet. */
	while (!atomic_load(&ended)) {
		pthread_kill(interrupted, SIGUSR1);
		nap(1);
	}
	assert_null(result_of(interrupted));
	pthread_cancel(cancelled);
	assert_ptr_equal(result_of(cancelled), PTHREAD_CANCELED);
	let_them_end(threads, &mutexes);
}

static double began;

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void *wait_at_the_barrier(void *argument)
{
	began = now_ms();
	atomic_fetch_add(&begun, 1);
	pthread_barrier_wait(&shared->barrier);
	return argument;
}

/* Until the first thread runs again. */
static double begin_a_wait(pthread_t *thread)
{
	const int before = atomic_load(&begun);

	*thread = start(wait_at_the_barrier, NULL);
	while (atomic_load(&begun) == before)
		sched_yield();
	return now_ms() - began;
}

static int compare(const void *left, const void *right)
{
	const double difference = *(const double *)left - *(const double *)right;
	return (difference > 0) - (difference < 0);
}

/* One after the other, so that the first one of two has what was kept ready. */
static void other_threads_run_soon_after_a_wait_has_begun(void **state)
{
	double slower[WAITS / 2];
	pthread_t threads[WAITS];

	(void)state;
	if (!on_user_level()) {
		print_message("# the kernel's scheduler is not judged\n");
		skip();
	}
	for (int i = 0; i < WAITS; i += 2) {
		const double first = begin_a_wait(&threads[i]);
		const double second = begin_a_wait(&threads[i + 1]);
		slower[i / 2] = first > second ? first : second;
	}
	pthread_barrier_wait(&shared->barrier);
	for (int i = 0; i < WAITS; i++)
		assert_null(result_of(threads[i]));
	qsort(slower, WAITS / 2, sizeof(slower[0]), compare);
	print_message("# %.3f ms, of most %.3f ms\n", slower[WAITS / 4], slower[WAITS / 2 - 1]);
	assert_true(slower[WAITS / 4] < MOST_MS * patient_seconds(1));
}

int main(void)
{
	limit_to(100);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(other_threads_run_soon_after_a_wait_has_begun, make,
						unmake),
		cmocka_unit_test_setup_teardown(
			without_kernel_threads_waits_end_in_time_and_by_signals_and_cancellation,
			make, unmake),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
