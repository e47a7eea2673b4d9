/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * banking - even threads deposit, odd ones withdraw, one account (uthreads, 5.4).
 *
 * The size is the number of transactions.
 */
#include "crew.h"

#define BEGINNING 1000000000000000 /* enough for any number of threads that only withdraw first */
#define AMOUNTS 100                /* from 1 on, in turns */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t balance = BEGINNING;

static uint64_t amount_of(uint64_t transaction)
{
	return transaction % AMOUNTS + 1;
}

static void transact(unsigned int number)
{
	struct crew_share share = crew_share(number);

	for (uint64_t i = share.begin; i < share.end; i++) {
		pthread_mutex_lock(&mutex);
		if (number % 2 == 0)
			balance += amount_of(i);
		else
			balance -= amount_of(i);
		pthread_mutex_unlock(&mutex);
	}
}

/* Of the transactions from 0 to before `end`. */
static uint64_t amount_before(uint64_t end)
{
	uint64_t rest = end % AMOUNTS;
	return end / AMOUNTS * (AMOUNTS * (AMOUNTS + 1) / 2) + rest * (rest + 1) / 2;
}

int main(int argc, char **argv)
{
	uint64_t expected = BEGINNING;

	crew_begin(argc, argv, 1, 1);
	crew_run(transact);
	for (unsigned int i = 0; i < crew.threads; i++) {
		struct crew_share share = crew_share(i);
		uint64_t moved = amount_before(share.end) - amount_before(share.begin);
		expected += i % 2 == 0 ? moved : -moved;
	}
	return crew_end("banking", balance, expected);
}
