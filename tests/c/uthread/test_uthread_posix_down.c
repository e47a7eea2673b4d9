/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* libtek-uthread.so stands down: threads are kernel threads, and all objects work. */
#include "patience.h"
#include "uthread_posix.h"

#include <semaphore.h>
#include <sys/syscall.h>

/* A symbol of libtek.so that libtek-uthread.so searches. */
__attribute__((visibility("default"))) unsigned int *tek_epoch_;

/* TIMES iterations; after MOST_MS on a busy machine fewer, at least FEWEST. */
enum { THREADS = 4, TIMES = 200000, FEWEST = 2000, MOST_MS = 2000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t semaphore;
static long by_mutex, by_rwlock, by_semaphore;
static struct timespec end;
static int iteration;

static void *count(void *argument)
{
	intptr_t times = 0;

	(void)argument;
	for (; times < TIMES && (times < FEWEST || times % 64 || !is_over(&end)); times++) {
		pthread_mutex_lock(&mutex);
		by_mutex++;
		pthread_mutex_unlock(&mutex);
		pthread_rwlock_wrlock(&rwlock);
		by_rwlock++;
		pthread_rwlock_unlock(&rwlock);
		sem_wait(&semaphore);
		by_semaphore++;
		sem_post(&semaphore);
	}
	return (void *)times;
}

static void kernel_threads_keep_each_other_out(void **state)
{
	pthread_t threads[THREADS];
	long times = 0;

	(void)state;
	end = in_ms(CLOCK_MONOTONIC, MOST_MS);
	sem_init(&semaphore, 0, 1);
	for (int i = 0; i < THREADS; i++)
		threads[i] = start(count, NULL);
	for (int i = 0; i < THREADS; i++)
		times += (intptr_t)result_of(threads[i]);
	assert_int_equal(by_mutex, times);
	assert_int_equal(by_rwlock, times);
	assert_int_equal(by_semaphore, times);
}

static void *alternate(void *argument)
{
	const int mine = (int)(intptr_t)argument;

	for (int i = 0; i < 2000; i++) {
		pthread_mutex_lock(&mutex);
		while (iteration != mine)
			pthread_cond_wait(&cond, &mutex);
		iteration = !mine;
		pthread_cond_signal(&cond);
		pthread_mutex_unlock(&mutex);
	}
	return (void *)(intptr_t)(syscall(SYS_gettid) == getpid());
}

static void kernel_threads_wake_each_other(void **state)
{
	(void)state;
	pthread_t one = start(alternate, (void *)0), other = start(alternate, (void *)1);
	assert_null(result_of(one));
	assert_null(result_of(other));
}

int main(void)
{
	limit_to(100);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernel_threads_keep_each_other_out),
		cmocka_unit_test(kernel_threads_wake_each_other),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
