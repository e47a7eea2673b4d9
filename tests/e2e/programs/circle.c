/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * 50 threads in a circle, touch and further ones: each waits for the mutex of the next one until
 * standard input ends.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { THREADS = 50 };

static pthread_mutex_t mutexes[THREADS];
static pthread_barrier_t all_hold;

static void *wait_for_next(void *argument)
{
	pthread_mutex_t *own = argument;
	long number = own - mutexes;

	if (number == 0)
		pthread_setname_np(pthread_self(), "touch");
	pthread_mutex_lock(own);
	pthread_barrier_wait(&all_hold);
	pthread_mutex_lock(&mutexes[(number + 1) % THREADS]);
	return NULL;
}

int main(void)
{
	pthread_t thread;
	char byte;

	pthread_barrier_init(&all_hold, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) {
		pthread_mutex_init(&mutexes[i], NULL);
		pthread_create(&thread, NULL, wait_for_next, &mutexes[i]);
	}
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	_exit(0);
}
