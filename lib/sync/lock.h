/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Locks, one kind in each file: lock_NAME.c.
 *
 * A lock is two words that fit into a pthread_mutex_t beside what the C library keeps there (preload/sync/mutex.c).
 * All zero is a free one of whatever kind.  It has no owner, cannot be locked again by who holds it, and knows nothing
 * of kinds: who uses it calls the functions of one kind from its first use to its last.
 *
 * Life: nobody reads or writes a lock after the store that unlocks it, so who locks it next may destroy and free it.
 *
 * Who waits does so by the means of waiting.h: kernel threads and user-level threads alike.  No function here is
 * async-signal-safe or a cancellation point, and none allocates, so that allocators may lock.
 */
#ifndef TEK_SYNC_LOCK_H
#define TEK_SYNC_LOCK_H

#include "sync/until.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tek_lock {
	_Atomic uintptr_t first, second;
};

/*
 * The functions of a kind.  Acquiring is an acquire operation, and releasing a release operation, in the sense of C11:
 * what was written under the lock is seen by who has it next.
 */
struct tek_lock_kind {
	const char *name;  /* as --lock has it */
	const char *about; /* a few words for --help */
	bool fifo;         /* who came first gets it first */
	bool sleeps;       /* who waits for long sleeps */

	/* 0, as of unlock(): so pthread_mutex_lock(3) ends with a jump. */
	int (*lock)(struct tek_lock *lock);
	bool (*try)(struct tek_lock *lock);
	/* 0, ETIMEDOUT, EINVAL: `until` is no time (found out only if it has to wait). */
	int (*lock_until)(struct tek_lock *lock, struct tek_until until);
	/* By the thread that has locked it.  Of a free one: it stays so; not if others lock it meanwhile. */
	int (*unlock)(struct tek_lock *lock);
	/* Of one that nobody writes meanwhile: a copy. */
	bool (*is_locked)(const struct tek_lock *lock);
	/*
	 * In a child of fork(), of one that the calling thread had locked in the parent, before its words are cleared.  NULL:
	 * it has nothing beside them.
	 */
	void (*leave)(const struct tek_lock *lock);
};

/* Ends with NULL; the order is that of --help. */
extern const struct tek_lock_kind *const tek__lock_kinds[] __attribute__((visibility("hidden")));

/* NULL: there is none of that name. */
const struct tek_lock_kind *tek__lock_kind_named(const char *name);

/* Of the kinds whose first word is 0 exactly if it is free. */
static inline bool tek__lock_has_first(const struct tek_lock *lock)
{
	return atomic_load_explicit(&lock->first, memory_order_relaxed) != 0;
}

#define TEK_LOCK_KIND(kind) \
	extern const struct tek_lock_kind tek__lock_##kind __attribute__((visibility("hidden")))
TEK_LOCK_KIND(tas);
TEK_LOCK_KIND(tatas);
TEK_LOCK_KIND(ticket);
TEK_LOCK_KIND(ticket_pb);
TEK_LOCK_KIND(k42);
TEK_LOCK_KIND(mcs);
TEK_LOCK_KIND(tp);
TEK_LOCK_KIND(park);
TEK_LOCK_KIND(futex);
TEK_LOCK_KIND(pi);
TEK_LOCK_KIND(auto);

/* What the locks of kind auto of this process have done since it began (lock_auto.c). */
struct tek_lock_auto_counts {
	unsigned long to_park; /* how often one went from spinning to parking */
	unsigned long to_spin; /* and back */
};
void tek__lock_auto_counts(struct tek_lock_auto_counts *counts);

/* So often in a row must a thread find that nobody has slept, at whichever locks, and this one spins again. */
extern unsigned int tek__lock_auto_calm __attribute__((visibility("hidden")));

/* The same of single ones, by number from 0; false: there are no more.  Whether *lock still exists nobody knows. */
#define TEK_LOCK_AUTO_CHANGED 16
bool tek__lock_auto_changed(unsigned int number, const struct tek_lock **lock,
			    struct tek_lock_auto_counts *counts);

#endif
