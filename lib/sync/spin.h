/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Spin locks of one 32-bit word, the size of a pthread_spinlock_t; one kind in each file:
 * spin_NAME.c.
 *
 * As for lock.h: zero is a free lock, no thread accesses a lock after the store that unlocks it,
 * and waiters yield as waiting.h describes. Queue locks need more than one word: the ticket lock,
 * which is as fair, stands in for them.
 */
#ifndef TEK_SYNC_SPIN_H
#define TEK_SYNC_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>

struct tek_spin_kind {
	const char *name;

	/* Acquire operations. */
	void (*lock)(atomic_uint *word);
	bool (*try)(atomic_uint *word);
	/* A release operation, by the thread that has locked it. */
	void (*unlock)(atomic_uint *word);
};

/* Ends with NULL. */
extern const struct tek_spin_kind *const tek_sync__spin_kinds[]
	__attribute__((visibility("hidden")));

/*
 * The kind for a lock of that name (lock.h): the same kind, or its nearest substitute, which has
 * another name. NULL: there is no such lock.
 */
const struct tek_spin_kind *tek_sync__spin_kind_for(const char *name);

extern const struct tek_spin_kind tek_sync__spin_tas __attribute__((visibility("hidden")));
extern const struct tek_spin_kind tek_sync__spin_tatas __attribute__((visibility("hidden")));
extern const struct tek_spin_kind tek_sync__spin_ticket __attribute__((visibility("hidden")));

#endif
