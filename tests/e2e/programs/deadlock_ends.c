/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * touch waits for a mutex of writer. Then writer and logger wait for each other's mutex until
 * writer gives up, which prints a line. touch waits on until standard input ends.
 */
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all_hold;

static void *lock_first(void *name)
{
	pthread_setname_np(pthread_self(), name);
	pthread_mutex_lock(&first);
	return NULL;
}

static void *log_with_second(void *name)
{
	pthread_mutex_lock(&second);
	pthread_barrier_wait(&all_hold);
	return lock_first(name);
}

static void *write_with_first(void *name)
{
	struct timespec end;

	pthread_setname_np(pthread_self(), name);
	pthread_mutex_lock(&first);
	pthread_barrier_wait(&all_hold);
	sleep(1);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 2;
	pthread_mutex_timedlock(&second, &end);
	puts("writer gave up");
	fflush(stdout);
	pause();
	return NULL;
}

int main(void)
{
	pthread_t thread;
	char byte;

	pthread_barrier_init(&all_hold, NULL, 3);
	pthread_create(&thread, NULL, write_with_first, (char *)"writer");
	pthread_create(&thread, NULL, log_with_second, (char *)"logger");
	pthread_barrier_wait(&all_hold);
	pthread_create(&thread, NULL, lock_first, (char *)"touch");
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	_exit(0);
}
