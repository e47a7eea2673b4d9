/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Selects the threads of a kind or site to measure: all until SETTLED_THREADS of them were, the
 * last SETTLED_SINCE without a higher bound; then some. A program may create few threads in each of
 * its runs, so of the first threads of a process more are measured than of the later ones.
 *
 * The functions need the lock (threads/process.h).
 */
#ifndef TEK_STACK_SAMPLING_H
#define TEK_STACK_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

struct tek_sampling {
	unsigned int measured;     /* threads, in earlier runs too */
	unsigned int since_higher; /* of them, since one that brought a higher bound */
	unsigned int created;      /* by this process */
	unsigned int phase;        /* which of them are sampled: it differs between runs */
};

/* Of a kind that earlier runs learnt. */
struct tek_sampling tek__sampling_of(uint64_t threads, uint64_t runs);

/* Whether the next thread is to be measured. */
bool tek__sampling_wants(struct tek_sampling *sampling);

/* One was measured, perhaps not for the first time. */
void tek__sampling_note(struct tek_sampling *sampling, bool first_time, bool is_higher);

/* In the child of a fork. */
void tek__sampling_forget(struct tek_sampling *sampling);

#endif
