// SPDX-License-Identifier: MIT OR Apache-2.0
/* OpenMP: a reduction, a critical section and barriers in four threads.  Prints the results. */
#include <omp.h>
#include <stdio.h>

enum { NUMBERS = 1000000, ROUNDS = 100, THREADS = 4 };

int main(void)
{
	long long sum = 0;
	int entered = 0;

#pragma omp parallel for num_threads(THREADS) reduction(+ : sum)
	for (int n = 0; n < NUMBERS; n++)
		sum += n;
#pragma omp parallel num_threads(THREADS)
	for (int round = 0; round < ROUNDS; round++) {
#pragma omp critical
		entered++;
#pragma omp barrier
	}
	printf("sum %lld, entered %d\n", sum, entered);
	return 0;
}
