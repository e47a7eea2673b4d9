/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Locks, one kind in each file: lock_NAME.c; TEK_LOCK_KINDS of tek_options.h lists them. The
 * callers are the functions of preload/sync/.
 *
 * A lock is two words that fit into a pthread_mutex_t beside the fields of the C library
 * (preload/sync/mutex.c). All zero is a free lock of any kind. It has no owner, its holder cannot
 * lock it again, and it does not record its kind: a user calls the functions of one kind from first
 * use to last.
 *
 * Life cycle: no thread accesses a lock after the store that unlocks it, so the next holder may
 * destroy and free it.
 *
 * Waiters wait by the functions of waiting.h, kernel threads and user-level threads alike. No
 * function here is async-signal-safe or a cancellation point, and none allocates, so allocators may
 * lock.
 */
#ifndef TEK_SYNC_LOCK_H
#define TEK_SYNC_LOCK_H

#include "base/until.h"
#include "tek_options.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tek_lock {
	_Atomic uintptr_t first, second;
};

/*
 * The functions of a kind. Locking is an acquire operation, and unlocking a release operation, in
 * the sense of C11: the next holder sees what was written under the lock.
 */
struct tek_lock_kind {
	const char *name; /* as --lock has it */
	bool fifo;        /* waiters get it in FIFO order */
	bool sleeps;      /* a long wait sleeps */

	/* Returns 0, as unlock() does: so pthread_mutex_lock(3) ends with a jump. */
	int (*lock)(struct tek_lock *lock);
	bool (*try)(struct tek_lock *lock);
	/* 0, ETIMEDOUT; EINVAL: `until` is not a valid time (checked only if it has to wait). */
	int (*lock_until)(struct tek_lock *lock, struct tek_until until);
	/*
	 * By the thread that has locked it. A free lock stays free, unless another thread locks it
	 * meanwhile.
	 */
	int (*unlock)(struct tek_lock *lock);
	/* For a lock that no thread writes meanwhile: a copy. */
	bool (*is_locked)(const struct tek_lock *lock);
	/*
	 * In a child of fork(), for a lock that the calling thread had locked in the parent, before
	 * its words are cleared. NULL: the kind has no state beside them.
	 */
	void (*leave)(const struct tek_lock *lock);
};

/* Those of TEK_LOCK_KINDS, in its order. Ends with NULL. */
extern const struct tek_lock_kind *const tek_sync__lock_kinds[]
	__attribute__((visibility("hidden")));

/* A few words about the kind of that place in the list. */
const char *tek_sync__lock_kind_about(unsigned int number);

/* NULL: no kind has that name. */
const struct tek_lock_kind *tek_sync__lock_kind_named(const char *name);

/* For the kinds where a first word of 0 means free, and any other one locked. */
static inline bool tek_sync__lock_has_first(const struct tek_lock *lock)
{
	return atomic_load_explicit(&lock->first, memory_order_relaxed) != 0;
}

#define TEK_LOCK_KIND(kind, name, about) \
	extern const struct tek_lock_kind tek_sync__lock_##kind \
		__attribute__((visibility("hidden")));
TEK_LOCK_KINDS(TEK_LOCK_KIND)
#undef TEK_LOCK_KIND

/* Counts of all locks of kind auto since this process began (lock_auto.c). */
struct tek_lock_auto_counts {
	unsigned long to_park; /* changes from spinning to parking */
	unsigned long to_spin; /* and back */
};
void tek_sync__lock_auto_counts(struct tek_lock_auto_counts *counts);

/*
 * A thread has to find no sleeper so many times in a row, at any locks; then the lock at hand spins
 * again.
 */
extern unsigned int tek_sync__lock_auto_respin_after __attribute__((visibility("hidden")));

/*
 * The same of single locks, by number from 0; false: there are no more. *lock may no longer exist.
 */
#define TEK_LOCK_AUTO_CHANGED 16
bool tek_sync__lock_auto_changed(unsigned int number, const struct tek_lock **lock,
				 struct tek_lock_auto_counts *counts);

#endif
