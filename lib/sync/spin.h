/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Spin locks of one 32-bit word, which is all that a pthread_spinlock_t has; one kind in each file: spin_NAME.c.
 *
 * As for lock.h: zero is a free one, nobody touches a lock after the store that unlocks it, and who waits lets others
 * run as waiting.h says.  Queue locks are longer than that: who asks for one gets the ticket lock, which is as fair.
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
extern const struct tek_spin_kind *const tek__spin_kinds[] __attribute__((visibility("hidden")));

/*
 * The kind to take where a lock of that name (lock.h) is asked for: its own, or the one that comes next to it, which has
 * another name.  NULL: there is no such lock.
 */
const struct tek_spin_kind *tek__spin_kind_for(const char *name);

extern const struct tek_spin_kind tek__spin_tas __attribute__((visibility("hidden")));
extern const struct tek_spin_kind tek__spin_tatas __attribute__((visibility("hidden")));
extern const struct tek_spin_kind tek__spin_ticket __attribute__((visibility("hidden")));

#endif
