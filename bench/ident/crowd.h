/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that sleep until the process ends, so that one thread is among many. */
#ifndef IDENT_CROWD_H
#define IDENT_CROWD_H

#include <pthread.h>
#include <sys/types.h>

#define CROWD_MAX 30000

struct crowd {
	unsigned int count;
	pthread_t threads[CROWD_MAX];
	pid_t tids[CROWD_MAX];
};

/* Start so many threads and wait until all run.  Exits with a message on failure. */
void crowd_start(struct crowd *crowd, unsigned int count);

#endif
