/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Barriers, one kind in each file: barrier_NAME.c.
 *
 * A barrier lies in a pthread_barrier_t (preload/sync/barrier.c); what threads share and wait for lies elsewhere, in
 * lines of caches of its own, which init() gets.
 *
 * Life: init(), wait() by any number of threads, destroy().  As soon as one of a round has come out of wait() it may
 * destroy the barrier, and free it, while the others are on their way out.  More threads than `count` may use it; each
 * takes part in the round that it arrives in.
 *
 * wait() is a release and an acquire operation, in the sense of C11: what threads wrote before they arrived is seen by
 * all that come out.  Who waits does so by the means of waiting.h: kernel threads and user-level threads alike.
 * No function here is async-signal-safe or a cancellation point.
 */
#ifndef TEK_SYNC_BARRIER_H
#define TEK_SYNC_BARRIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEK_BARRIER_MAX 0x7fffffffu

struct tek_barrier {
	unsigned int count;       /* so many make a round: 1 to TEK_BARRIER_MAX */
	unsigned int reserved[3]; /* zero: in one of them the C library has "shared by processes" */
	void *place;              /* NULL: nobody has initialised it */
};

struct tek_barrier_kind {
	const char *name;  /* as --barrier has it */
	const char *about; /* a few words for --help */
	bool sleeps;       /* who waits for long sleeps */

	/* 0, ENOMEM.  The count is sound. */
	int (*init)(struct tek_barrier *barrier, unsigned int count);
	/* Returns true in one thread of each round. */
	bool (*wait)(struct tek_barrier *barrier);
	/* 0, EBUSY: some wait, but not enough. */
	int (*destroy)(struct tek_barrier *barrier);
};

/* Ends with NULL; the order is that of --help. */
extern const struct tek_barrier_kind *const tek__barrier_kinds[]
	__attribute__((visibility("hidden")));

/* NULL: there is none of that name. */
const struct tek_barrier_kind *tek__barrier_kind_named(const char *name);

#define TEK_BARRIER_KIND(kind) \
	extern const struct tek_barrier_kind tek__barrier_##kind \
		__attribute__((visibility("hidden")))
TEK_BARRIER_KIND(central);
TEK_BARRIER_KIND(dissemination);
TEK_BARRIER_KIND(block);
TEK_BARRIER_KIND(mutex);
TEK_BARRIER_KIND(auto);

#endif
