/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Objects of several processes are the C library's; their waiters do not delay other threads. */
#include "patience.h"
#include "shared_objects.h"
#include "uthread_posix.h"

#include <dirent.h>
#include <errno.h>
#include <sys/wait.h>

enum { THREADS = 300 };

static struct shared *shared;

static int make(void **state)
{
	(void)state;
	shared = make_shared(2);
	return 0;
}

static int unmake(void **state)
{
	(void)state;
	return unmake_shared(shared);
}

static void *wait_until_it_is_over(void *argument)
{
	pthread_mutex_lock(&shared->mutex);
	shared->waiting++;
	while (!shared->over)
		pthread_cond_wait(&shared->cond, &shared->mutex);
	shared->waiting--;
	pthread_mutex_unlock(&shared->mutex);
	return argument;
}

static int kernel_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int count = -2; /* "." and ".." */

	while (readdir(tasks))
		count++;
	closedir(tasks);
	return count;
}

/* All of them wait at a time, with as many workers as there are. */
static void hundreds_wait_and_other_threads_run(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	for (uintptr_t i = 0; i < THREADS; i++)
		threads[i] = start(wait_until_it_is_over, (void *)i);
	pthread_mutex_lock(&shared->mutex);
	while (shared->waiting < THREADS) {
		pthread_mutex_unlock(&shared->mutex);
		nap(1);
		pthread_mutex_lock(&shared->mutex);
	}
	shared->over = true;
	pthread_cond_broadcast(&shared->cond);
	pthread_mutex_unlock(&shared->mutex);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_ptr_equal(result_of(threads[i]), (void *)i);
	assert_int_equal(shared->waiting, 0);
}

static void those_that_waited_leave_no_kernel_threads_behind(void **state)
{
	(void)state;
	for (int round = 0; round < 3; round++) {
		shared->over = false;
		hundreds_wait_and_other_threads_run(state);
	}
	for (int i = 0; i < 1000 && kernel_threads() > 100; i++)
		nap(10);
	assert_in_range(kernel_threads(), 1, 100);
	/* It reaches all that are there, and waits for none that are not. */
	assert_int_equal(setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1), 0);
}

static atomic_int arrived;

static void *use_all_of_them(void *argument)
{
	(void)argument;
	sem_wait(&shared->sem);
	atomic_fetch_add(&arrived, 1);
	pthread_rwlock_wrlock(&shared->rwlock);
	pthread_rwlock_unlock(&shared->rwlock);
	atomic_fetch_add(&arrived, 1);
	pthread_rwlock_rdlock(&shared->rwlock);
	pthread_rwlock_unlock(&shared->rwlock);
	pthread_mutex_lock(&shared->mutex);
	pthread_mutex_unlock(&shared->mutex);
	atomic_fetch_add(&arrived, 1);
	pthread_barrier_wait(&shared->barrier);
	return NULL;
}

static void a_thread_that_waits_for_any_kind_lets_other_ones_run(void **state)
{
	(void)state;
	pthread_rwlock_rdlock(&shared->rwlock);
	pthread_mutex_lock(&shared->mutex);
	pthread_t thread = start(use_all_of_them, NULL);
	nap(20);
	assert_int_equal(atomic_load(&arrived), 0);
	sem_post(&shared->sem);
	assert_true(becomes(&arrived, 1));
	nap(20);
	assert_int_equal(atomic_load(&arrived), 1);
	pthread_rwlock_unlock(&shared->rwlock);
	assert_true(becomes(&arrived, 2));
	nap(20);
	assert_int_equal(atomic_load(&arrived), 2);
	pthread_mutex_unlock(&shared->mutex);
	assert_true(becomes(&arrived, 3));
	pthread_barrier_wait(&shared->barrier);
	result_of(thread);
}

static void *wait_in_vain(void *argument)
{
	struct timespec soon;

	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_sec += 1;
	errno = 0;
	if (sem_timedwait(&shared->sem, &soon) == 0 || errno != ETIMEDOUT)
		return argument;
	pthread_mutex_lock(&shared->mutex);
	int error = pthread_cond_timedwait(&shared->cond, &shared->mutex, &soon);
	pthread_mutex_unlock(&shared->mutex);
	return error == ETIMEDOUT ? NULL : argument;
}

static void waiting_ends_at_its_time(void **state)
{
	(void)state;
	assert_null(result_of(start(wait_in_vain, state)));
}

static void *wait_for_the_other_process(void *argument)
{
	(void)argument;
	sem_wait(&shared->sem);
	wait_until_it_is_over(NULL);
	return NULL;
}

static void processes_wake_each_other(void **state)
{
	int status;

	(void)state;
	pid_t child = fork();
	assert_int_not_equal(child, -1);
	if (child == 0) {
		limit_to(30);
		pthread_t thread = start(wait_for_the_other_process, NULL);
		result_of(thread);
		_exit(0);
	}
	sem_post(&shared->sem);
	pthread_mutex_lock(&shared->mutex);
	while (!shared->waiting) {
		pthread_mutex_unlock(&shared->mutex);
		nap(1);
		pthread_mutex_lock(&shared->mutex);
	}
	shared->over = true;
	pthread_cond_signal(&shared->cond);
	pthread_mutex_unlock(&shared->mutex);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	limit_to(100);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(hundreds_wait_and_other_threads_run, make, unmake),
		cmocka_unit_test_setup_teardown(those_that_waited_leave_no_kernel_threads_behind,
						make, unmake),
		cmocka_unit_test_setup_teardown(
			a_thread_that_waits_for_any_kind_lets_other_ones_run, make, unmake),
		cmocka_unit_test_setup_teardown(waiting_ends_at_its_time, make, unmake),
		cmocka_unit_test_setup_teardown(processes_wake_each_other, make, unmake),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
