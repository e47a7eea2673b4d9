/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "crowd.h"

#include <err.h>
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK_BYTES (64 * 1024) /* small, so that 30,000 fit */

static sem_t running;

static void *sleep_for_ever(void *tid)
{
	*(pid_t *)tid = (pid_t)syscall(SYS_gettid);
	sem_post(&running);
	for (;;)
		pause();
	return NULL;
}

void crowd_start(struct crowd *crowd, unsigned int count)
{
	pthread_attr_t attr;

	sem_init(&running, 0, 0);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	for (unsigned int i = 0; i < count; i++) {
		errno = pthread_create(&crowd->threads[i], &attr, sleep_for_ever, &crowd->tids[i]);
		if (errno)
			err(EXIT_FAILURE, "cannot start thread %u of %u", i + 1, count);
	}
	pthread_attr_destroy(&attr);
	for (unsigned int i = 0; i < count; i++)
		while (sem_wait(&running))
			;
	crowd->count = count;
}
