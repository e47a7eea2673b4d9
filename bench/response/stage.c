/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stage.h"

#include <pthread.h>
#include <stdatomic.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned parked;
/* Written under the lock; busy threads read it without. */
static _Atomic enum stage current = STAGE_SETUP;

enum stage stage_now(void)
{
	return atomic_load_explicit(&current, memory_order_relaxed);
}

void stage_enter(enum stage next)
{
	pthread_mutex_lock(&lock);
	atomic_store_explicit(&current, next, memory_order_relaxed);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

void stage_wait(enum stage wanted)
{
	pthread_mutex_lock(&lock);
	while (stage_now() < wanted)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

void stage_parked(void)
{
	pthread_mutex_lock(&lock);
	parked++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

void stage_wait_parked(unsigned threads)
{
	pthread_mutex_lock(&lock);
	while (parked < threads)
		pthread_cond_wait(&changed, &lock);
	parked -= threads;
	pthread_mutex_unlock(&lock);
}
