/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "queue.h"

#include "program.h"

#include <stdlib.h>
#include <string.h>

#define ROOM 256

void queue_init(struct queue *queue, unsigned int producers, bool grows)
{
	*queue = (struct queue){.room = ROOM, .producers = producers, .grows = grows};
	queue->ring = program_memory(calloc(ROOM, sizeof(*queue->ring)));
	program_must(pthread_mutex_init(&queue->mutex, NULL), "no mutex");
	program_must(pthread_cond_init(&queue->not_empty, NULL), "no condition variable");
	program_must(pthread_cond_init(&queue->not_full, NULL), "no condition variable");
}

/* Twice the room; what has come round to the beginning goes behind the rest. */
static void grow(struct queue *queue)
{
	unsigned int room = queue->room;

	queue->ring = program_memory(realloc(queue->ring, 2 * room * sizeof(*queue->ring)));
	memcpy(queue->ring + room, queue->ring, queue->first * sizeof(*queue->ring));
	queue->room = 2 * room;
}

void queue_put(struct queue *queue, void *thing)
{
	program_must(pthread_mutex_lock(&queue->mutex), "cannot lock");
	if (queue->grows && queue->count == queue->room)
		grow(queue);
	while (queue->count == queue->room)
		program_must(pthread_cond_wait(&queue->not_full, &queue->mutex), "cannot wait");
	queue->ring[(queue->first + queue->count++) % queue->room] = thing;
	program_must(pthread_cond_signal(&queue->not_empty), "cannot wake");
	program_must(pthread_mutex_unlock(&queue->mutex), "cannot unlock");
}

void queue_leave(struct queue *queue)
{
	program_must(pthread_mutex_lock(&queue->mutex), "cannot lock");
	if (--queue->producers == 0)
		program_must(pthread_cond_broadcast(&queue->not_empty), "cannot wake");
	program_must(pthread_mutex_unlock(&queue->mutex), "cannot unlock");
}

void *queue_get(struct queue *queue)
{
	void *thing = NULL;

	program_must(pthread_mutex_lock(&queue->mutex), "cannot lock");
	while (queue->count == 0 && queue->producers > 0)
		program_must(pthread_cond_wait(&queue->not_empty, &queue->mutex), "cannot wait");
	if (queue->count > 0) {
		thing = queue->ring[queue->first];
		queue->first = (queue->first + 1) % queue->room;
		queue->count--;
		program_must(pthread_cond_signal(&queue->not_full), "cannot wake");
	}
	program_must(pthread_mutex_unlock(&queue->mutex), "cannot unlock");
	return thing;
}

void queue_destroy(struct queue *queue)
{
	pthread_mutex_destroy(&queue->mutex);
	pthread_cond_destroy(&queue->not_empty);
	pthread_cond_destroy(&queue->not_full);
	free(queue->ring);
}
