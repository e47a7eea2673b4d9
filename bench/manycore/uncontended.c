/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The cost of locking and unlocking an uncontended mutex, in a process with two threads: as the
 * program does it, with the C library's or, under `tek run --lock NAME`, with another one.
 *
 *	uncontended [ROUNDS]		a line of JSON: ns of CPU time for each pair, the median
 */
#include "../response/clock.h"
#include "../response/median.h"
#include "../response/number.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define PAIRS 100000
#define ROUNDS_MAX 1000

static void *wait_for_ever(void *argument)
{
	for (;;)
		pause();
	return argument;
}

int main(int count, char **arguments)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static double ns[ROUNDS_MAX];
	const uint64_t rounds = count > 1 ? number("rounds", arguments[1], 1, ROUNDS_MAX) : 11;
	pthread_t other;

	if (pthread_create(&other, NULL, wait_for_ever, NULL))
		return 1;
	for (uint64_t i = 0; i < rounds; i++) {
		const uint64_t begin = thread_cpu_ns(); /* not that of other threads */
		for (int j = 0; j < PAIRS; j++) {
			pthread_mutex_lock(&mutex);
			pthread_mutex_unlock(&mutex);
		}
		ns[i] = (double)(thread_cpu_ns() - begin) / PAIRS;
	}
	printf("{\"program\": \"uncontended\", \"threads\": 2, \"ns\": %.2f}\n",
	       median(ns, rounds));
}
