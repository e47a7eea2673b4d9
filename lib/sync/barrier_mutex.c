/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Mutex and condition variable: what programs write themselves, as streamcluster does
 * (rtos-linux-scalability-2018, 4.4). The baseline for the other kinds; with --lock its mutex is of
 * that kind.
 */
#include "sync/barrier.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct place {
	pthread_mutex_t mutex;
	pthread_cond_t over, left;
	unsigned int arrived, round, inside;
};

static int init(struct tek_sync_barrier *barrier, unsigned int count)
{
	struct place *place = calloc(1, sizeof(*place));

	if (!place)
		return ENOMEM;
	pthread_mutex_init(&place->mutex, NULL);
	pthread_cond_init(&place->over, NULL);
	pthread_cond_init(&place->left, NULL);
	*barrier = (struct tek_sync_barrier){.count = count, .place = place};
	return 0;
}

static bool wait(struct tek_sync_barrier *barrier)
{
	struct place *place = barrier->place;
	int cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(&place->mutex);
	const unsigned int round = place->round;
	const bool last = ++place->arrived == barrier->count;
	place->inside++;
	if (last) {
		place->arrived = 0;
		place->round++;
		pthread_cond_broadcast(&place->over);
	}
	while (place->round == round)
		pthread_cond_wait(&place->over, &place->mutex);
	if (--place->inside == 0)
		pthread_cond_broadcast(&place->left);
	pthread_mutex_unlock(&place->mutex);
	pthread_setcancelstate(cancel_state, NULL);
	return last;
}

/* Waits for the threads that are leaving. */
static int destroy(struct tek_sync_barrier *barrier)
{
	struct place *place = barrier->place;

	pthread_mutex_lock(&place->mutex);
	const bool busy = place->arrived > 0;
	while (!busy && place->inside)
		pthread_cond_wait(&place->left, &place->mutex);
	pthread_mutex_unlock(&place->mutex);
	if (busy)
		return EBUSY;
	barrier->place = NULL;
	pthread_cond_destroy(&place->left);
	pthread_cond_destroy(&place->over);
	pthread_mutex_destroy(&place->mutex);
	free(place);
	return 0;
}

const struct tek_barrier_kind tek_sync__barrier_mutex = {
	.name = "mutex",
	.sleeps = true,
	.init = init,
	.wait = wait,
	.destroy = destroy,
};
