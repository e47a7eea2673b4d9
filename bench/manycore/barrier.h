/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The barrier of streamcluster, of two kinds: by hand of a mutex and a condition variable, as
 * PARSEC's is, or the pthread_barrier_t of the library that defines it in the process (--barrier
 * pthread).
 */
#ifndef MANYCORE_BARRIER_H
#define MANYCORE_BARRIER_H

#include <pthread.h>

struct barrier {
	pthread_barrier_t pthread;
	pthread_mutex_t mutex;
	pthread_cond_t all_here;
	/* Under the mutex. */
	unsigned int count, here, generation;
};

void barrier_init(struct barrier *barrier, unsigned int count);

/* Waits until `count` threads are here. What each did before is seen by all after it. */
void barrier_wait(struct barrier *barrier);

/* Only after all threads have left it. */
void barrier_destroy(struct barrier *barrier);

#endif
