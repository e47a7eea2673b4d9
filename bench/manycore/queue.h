/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A queue between two stages of a pipeline: a ring under a mutex, with a condition variable for
 * each side that may have to wait.  It ends when all producers have declared their end.
 */
#ifndef MANYCORE_QUEUE_H
#define MANYCORE_QUEUE_H

#include <pthread.h>
#include <stdbool.h>

struct queue {
	pthread_mutex_t mutex;
	pthread_cond_t not_empty, not_full;
	/* Under the mutex. */
	void **ring;
	unsigned int room, first, count, producers;
	bool grows;
};

/* One that grows always has room: a producer never waits. */
void queue_init(struct queue *queue, unsigned int producers, bool grows);

/* Waits for room. */
void queue_put(struct queue *queue, void *thing);

/* By each producer, once. */
void queue_leave(struct queue *queue);

/* Waits for something; NULL: that was all. */
void *queue_get(struct queue *queue);

void queue_destroy(struct queue *queue);

#endif
