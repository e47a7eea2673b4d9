/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two threads, touch and logger, that wait for each other's mutex until standard input ends. With
 * an argument touch gives up after so many ms, and the program prints a line.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all_hold;
static long limit_ms;

static void *lock_two(const char *name, pthread_mutex_t *holds, pthread_mutex_t *wants)
{
	pthread_setname_np(pthread_self(), name);
	pthread_mutex_lock(holds);
	pthread_barrier_wait(&all_hold);
	pthread_mutex_lock(wants);
	return NULL;
}

static void *touch(void *unused)
{
	struct timespec end;

	(void)unused;
	if (!limit_ms)
		return lock_two("touch", &first, &second);
	pthread_setname_np(pthread_self(), "touch");
	pthread_mutex_lock(&first);
	pthread_barrier_wait(&all_hold);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += limit_ms % 1000 * 1000000;
	end.tv_sec += limit_ms / 1000 + end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	pthread_mutex_timedlock(&second, &end);
	puts("touch gave up");
	fflush(stdout);
	pause();
	return NULL;
}

static void *logger(void *unused)
{
	(void)unused;
	return lock_two("logger", &second, &first);
}

int main(int argc, char **argv)
{
	limit_ms = argc > 1 ? atol(argv[1]) : 0;
	pthread_t thread;
	char byte;

	pthread_barrier_init(&all_hold, NULL, 2);
	pthread_create(&thread, NULL, touch, NULL);
	pthread_create(&thread, NULL, logger, NULL);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	_exit(0);
}
