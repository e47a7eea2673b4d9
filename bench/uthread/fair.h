/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The measurements of `fair`: each prints the members of a JSON object, without its braces. */
#ifndef UTHREAD_FAIR_H
#define UTHREAD_FAIR_H

#include <pthread.h>
#include <stdint.h>

struct fair_options {
	unsigned int threads;
	uint64_t run_ns; /* how long it lasts */
	uint64_t seed;   /* of what is random */
};

typedef void fair_fn(const struct fair_options *options);

/* Threads that only compute: what each got. */
fair_fn fair_shares;
/* A thread that sleeps often, beside threads that only compute: from its time to when it runs. */
fair_fn fair_interactive;
/*
 * Long jobs, and short ones that come meanwhile: how long each takes, from when it comes to its
 * end.
 */
fair_fn fair_mixed;
/*
 * Threads of as many priorities that wake each other: how often one ran while a higher one was
 * ready.
 */
fair_fn fair_priorities;

/* Exits with a message if a pthread function has returned an error number. */
void must(int error, const char *what);

pthread_t start_thread(void *(*routine)(void *), void *argument);

/* Of 1 ms of work(): calibrated once, by the first thread. */
extern uint64_t work_per_ms;

#endif
