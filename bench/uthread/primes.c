/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * primes - the sum of the prime numbers below the size, by trial division (uthreads, 5.7).
 *
 * Numbers are dealt to the threads in small blocks, since greater ones take longer; each prime is
 * added under the mutex.
 */
#include "crew.h"

#include <err.h>
#include <stdlib.h>

#define BLOCK 128

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t sum;

static bool is_prime(uint32_t number)
{
	for (uint32_t divisor = 2; (uint64_t)divisor * divisor <= number; divisor++)
		if (number % divisor == 0)
			return false;
	return number >= 2;
}

static void add_primes(uint64_t begin, uint64_t end)
{
	for (uint64_t i = begin; i < end; i++) {
		if (!is_prime((uint32_t)i))
			continue;
		pthread_mutex_lock(&mutex);
		sum += i;
		pthread_mutex_unlock(&mutex);
	}
}

static void find_primes(unsigned int number)
{
	for (uint64_t i = (uint64_t)number * BLOCK; i < crew.size;
	     i += (uint64_t)crew.threads * BLOCK)
		add_primes(i, i + BLOCK < crew.size ? i + BLOCK : crew.size);
}

/* The sieve of Eratosthenes. */
static uint64_t expected(uint64_t size)
{
	bool *composite = calloc(size + 1, sizeof(*composite));
	uint64_t result = 0;

	if (!composite)
		err(EXIT_FAILURE, "no memory");
	for (uint64_t i = 2; i < size; i++) {
		if (composite[i])
			continue;
		result += i;
		for (uint64_t multiple = i * i; multiple < size; multiple += i)
			composite[multiple] = true;
	}
	free(composite);
	return result;
}

int main(int argc, char **argv)
{
	crew_begin(argc, argv, 1, 2);
	if (crew.size > UINT32_MAX)
		errx(2, "--size must be less than 2^32");
	crew_run(find_primes);
	return crew_end("primes", sum, expected(crew.size));
}
