/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One object of each kind that processes share, and what else they tell each other. */
#ifndef SHARED_OBJECTS_H
#define SHARED_OBJECTS_H

#include "uthread_posix.h"

#include <semaphore.h>
#include <sys/mman.h>

struct shared {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	pthread_rwlock_t rwlock;
	pthread_barrier_t barrier;
	sem_t sem;
	int waiting;
	bool over;
};

/* In memory that children of fork() share; the barrier is for so many. */
static inline struct shared *make_shared(unsigned int at_barrier)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t cond;
	pthread_rwlockattr_t rwlock;
	pthread_barrierattr_t barrier;
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(shared, MAP_FAILED);
	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&shared->mutex, &mutex);
	pthread_condattr_init(&cond);
	pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&shared->cond, &cond);
	pthread_rwlockattr_init(&rwlock);
	pthread_rwlockattr_setpshared(&rwlock, PTHREAD_PROCESS_SHARED);
	pthread_rwlock_init(&shared->rwlock, &rwlock);
	pthread_barrierattr_init(&barrier);
	pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->barrier, &barrier, at_barrier);
	sem_init(&shared->sem, 1, 0);
	return shared;
}

static inline int unmake_shared(struct shared *shared)
{
	return munmap(shared, sizeof(*shared));
}

#endif
