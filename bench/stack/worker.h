/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A thread of the spread: it uses its stack down to an exact byte, then sleeps until it is told
 * to leave.  Each level of use has a function of its own, so it is a kind of its own.
 */
#ifndef STACK_WORKER_H
#define STACK_WORKER_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WORKERS 273

struct worker {
	pthread_t thread;
	unsigned int level;
	bool alive;
	uintptr_t low, end; /* of its block: the guard is from low to low + guard_bytes */
	size_t guard_bytes;
	size_t used_bytes; /* from the end down, the C library's own data there included */
	sem_t go, leave;
};

/* Makes workers[0..WORKERS] of spread.csv, none of which runs yet. */
void workers_prepare(struct worker *workers);

/*
 * What each level uses is multiplied by a factor between 1 - vary and 1 + vary, the same for the
 * same seed.  Once, before any starts.
 */
void workers_vary(double vary, uint64_t seed);

/* Start it and wait until it has used its stack. Exits with a message on failure. */
void worker_start(struct worker *worker);

/* The same for all of them, which dig at once. */
void workers_start(struct worker *workers);

/* Have it leave, and join it. */
void worker_end(struct worker *worker);

#endif
