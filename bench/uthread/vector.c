/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * vector - the scalar product of two vectors, everything under one mutex (uthreads, 5.1).
 *
 * The size is the number of multiplications; they go round two vectors that fit into the caches.
 */
#include "crew.h"

#define LENGTH 4096

static uint32_t one[LENGTH], other[LENGTH];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t sum;

static void multiply(unsigned int number)
{
	struct crew_share share = crew_share(number);

	for (uint64_t i = share.begin; i < share.end; i++) {
		pthread_mutex_lock(&mutex);
		sum += (uint64_t)one[i % LENGTH] * other[i % LENGTH];
		pthread_mutex_unlock(&mutex);
	}
}

static uint64_t product(uint64_t length)
{
	uint64_t result = 0;
	for (uint64_t i = 0; i < length; i++)
		result += (uint64_t)one[i] * other[i];
	return result;
}

int main(int argc, char **argv)
{
	crew_begin(argc, argv, 1, 1);
	for (uint32_t i = 0; i < LENGTH; i++) {
		one[i] = i % 97;
		other[i] = i % 89 + 1;
	}
	crew_run(multiply);
	return crew_end("vector", sum,
			crew.size / LENGTH * product(LENGTH) + product(crew.size % LENGTH));
}
