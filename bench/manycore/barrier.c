/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "barrier.h"

#include "program.h"

void barrier_init(struct barrier *barrier, unsigned int count)
{
	*barrier = (struct barrier){.count = count};
	program_must(pthread_barrier_init(&barrier->pthread, NULL, count), "no barrier");
	program_must(pthread_mutex_init(&barrier->mutex, NULL), "no mutex");
	program_must(pthread_cond_init(&barrier->all_here, NULL), "no condition variable");
}

static void wait_by_hand(struct barrier *barrier)
{
	unsigned int generation;

	program_must(pthread_mutex_lock(&barrier->mutex), "cannot lock");
	generation = barrier->generation;
	if (++barrier->here == barrier->count) {
		barrier->here = 0;
		barrier->generation++;
		program_must(pthread_cond_broadcast(&barrier->all_here), "cannot wake");
	}
	while (generation == barrier->generation)
		program_must(pthread_cond_wait(&barrier->all_here, &barrier->mutex), "cannot wait");
	program_must(pthread_mutex_unlock(&barrier->mutex), "cannot unlock");
}

void barrier_wait(struct barrier *barrier)
{
	int result = 0;

	if (program.pthread_barrier)
		result = pthread_barrier_wait(&barrier->pthread);
	else
		wait_by_hand(barrier);
	if (result != PTHREAD_BARRIER_SERIAL_THREAD)
		program_must(result, "cannot wait at a barrier");
}

void barrier_destroy(struct barrier *barrier)
{
	pthread_barrier_destroy(&barrier->pthread);
	pthread_mutex_destroy(&barrier->mutex);
	pthread_cond_destroy(&barrier->all_here);
}
