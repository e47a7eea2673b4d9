/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Barriers, one kind in each file: barrier_NAME.c; TEK_BARRIER_KINDS of tek_options.h lists them.
 * The callers are the functions of preload/sync/barrier.c.
 *
 * A barrier lies in a pthread_barrier_t. The state that the threads share lies elsewhere, in cache
 * lines of its own, which init() allocates.
 *
 * Life cycle: init(), wait() by any number of threads, destroy(). Once one thread of a round has
 * returned from wait(), it may destroy and free the barrier while the other threads are still in
 * wait(). More threads than `count` may use a barrier; each takes part in the round that it arrives
 * in.
 *
 * wait() is a release and an acquire operation in the sense of C11: all threads of the round see
 * what each thread wrote before it arrived. Waiters wait by the functions of waiting.h, kernel
 * threads and user-level threads alike. No function here is async-signal-safe or a cancellation
 * point.
 */
#ifndef TEK_SYNC_BARRIER_H
#define TEK_SYNC_BARRIER_H

#include "tek_options.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEK_SYNC_BARRIER_MAX 0x7fffffffu

struct tek_sync_barrier {
	unsigned int count;       /* threads of a round: 1 to TEK_SYNC_BARRIER_MAX */
	unsigned int reserved[3]; /* zero: in one of them the C library has "shared by processes" */
	void *place;              /* NULL: not initialised */
};

struct tek_barrier_kind {
	const char *name; /* as --barrier has it */
	bool sleeps;      /* a long wait sleeps */

	/* 0, ENOMEM. The count is valid. */
	int (*init)(struct tek_sync_barrier *barrier, unsigned int count);
	/* Returns true in one thread of each round. */
	bool (*wait)(struct tek_sync_barrier *barrier);
	/* 0; EBUSY: some threads wait, fewer than a round. */
	int (*destroy)(struct tek_sync_barrier *barrier);
};

/* Those of TEK_BARRIER_KINDS, in its order. Ends with NULL. */
extern const struct tek_barrier_kind *const tek_sync__barrier_kinds[]
	__attribute__((visibility("hidden")));

/* NULL: no kind has that name. */
const struct tek_barrier_kind *tek_sync__barrier_kind_named(const char *name);

#define TEK_BARRIER_KIND(kind, name, about) \
	extern const struct tek_barrier_kind tek_sync__barrier_##kind \
		__attribute__((visibility("hidden")));
TEK_BARRIER_KINDS(TEK_BARRIER_KIND)
#undef TEK_BARRIER_KIND

#endif
