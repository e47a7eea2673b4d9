/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fibonacci - the 20th element of the Fibonacci sequence, by recursion (uthreads, 5.6).
 *
 * The size is how often it is computed.
 */
#include "crew.h"

#define ELEMENT 20
#define VALUE 6765

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t sum;

__attribute__((noinline)) static uint64_t fibonacci(unsigned int element)
{
	return element < 2 ? element : fibonacci(element - 1) + fibonacci(element - 2);
}

static void compute(unsigned int number)
{
	struct crew_share share = crew_share(number);

	for (uint64_t i = share.begin; i < share.end; i++) {
		unsigned int element = ELEMENT;
		/* As far as the compiler knows it is another one each time. */
		__asm__ volatile("" : "+r"(element));
		uint64_t value = fibonacci(element);
		pthread_mutex_lock(&mutex);
		sum += value;
		pthread_mutex_unlock(&mutex);
	}
}

int main(int argc, char **argv)
{
	crew_begin(argc, argv, 1, 1);
	crew_run(compute);
	return crew_end("fibonacci", sum, crew.size * VALUE);
}
