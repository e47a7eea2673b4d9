/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * parallel - each row of a matrix is multiplied outside of the mutex and added inside (uthreads,
 * 5.2).
 *
 * The size is the number of rows; they go round a matrix that fits into the caches.
 */
#include "crew.h"

#define ROWS 64
#define COLUMNS 1024

static uint32_t matrix[ROWS][COLUMNS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t sum;

/*
 * Unrolled to 16 iterations, so that every CPU foresees the last one.  Whether it does with 1,024
 * hangs on the branches in between: with mutexes that do nothing, by one branch more or less, the
 * program took up to 40% longer.
 */
static uint64_t multiply(const uint32_t *row)
{
	uint64_t product = 0;
#pragma GCC unroll 64
	for (uint64_t i = 0; i < COLUMNS; i++)
		product += row[i] * i;
	return product;
}

static void calculate(unsigned int number)
{
	struct crew_share share = crew_share(number);

	for (uint64_t i = share.begin; i < share.end; i++) {
		uint64_t product = multiply(matrix[i % ROWS]);
		pthread_mutex_lock(&mutex);
		sum += product;
		pthread_mutex_unlock(&mutex);
	}
}

static uint64_t product(uint64_t rows)
{
	uint64_t result = 0;
	for (uint64_t i = 0; i < rows; i++)
		result += multiply(matrix[i]);
	return result;
}

int main(int argc, char **argv)
{
	crew_begin(argc, argv, 1, 1);
	for (uint32_t row = 0; row < ROWS; row++)
		for (uint32_t column = 0; column < COLUMNS; column++)
			matrix[row][column] = row + column % 7;
	crew_run(calculate);
	return crew_end("parallel", sum,
			crew.size / ROWS * product(ROWS) + product(crew.size % ROWS));
}
