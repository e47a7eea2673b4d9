/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A lock of any kind with a word that records the process that wrote it last: forked.h. A lock of
 * zeros with a word of zero is free.
 *
 * In the child of fork() a free lock is cleared, because its queue has waiters of the parent only.
 * A lock that was held at the fork stays locked until its holder unlocks it, which clears it. Until
 * then waiters poll it outside of its queue, with naps. A lock whose holder is not in the child
 * stays locked for ever.
 */
#ifndef TEK_SYNC_FORKED_LOCK_H
#define TEK_SYNC_FORKED_LOCK_H

#include "sync/forked.h"
#include "sync/lock.h"

/* For a lock that another process wrote last. False: it was locked then. */
bool tek_sync__forked_lock_adopt(struct tek_lock *lock, atomic_uint *process,
				 const struct tek_lock_kind *kind);
/* The same, but waits: 0, ETIMEDOUT, EINVAL. */
int tek_sync__forked_lock_adopt_until(struct tek_lock *lock, atomic_uint *process,
				      const struct tek_lock_kind *kind, struct tek_until until);
/* For the thread that has held it since before the fork; a free lock is left alone. Returns 0. */
int tek_sync__forked_lock_unlock(struct tek_lock *lock, atomic_uint *process,
				 const struct tek_lock_kind *kind);

/* Takes the lock. Returns 0. */
static inline int tek_sync__forked_lock(struct tek_lock *lock, atomic_uint *process,
					const struct tek_lock_kind *kind)
{
	if (__builtin_expect(!tek_sync__process_is_ours(process), 0))
		tek_sync__forked_lock_adopt_until(lock, process, kind, TEK_FOR_EVER);
	return kind->lock(lock);
}

static inline bool tek_sync__forked_lock_try(struct tek_lock *lock, atomic_uint *process,
					     const struct tek_lock_kind *kind)
{
	if (__builtin_expect(!tek_sync__process_is_ours(process), 0) &&
	    !tek_sync__forked_lock_adopt(lock, process, kind))
		return false;
	return kind->try(lock);
}

static inline int tek_sync__forked_lock_until(struct tek_lock *lock, atomic_uint *process,
					      const struct tek_lock_kind *kind,
					      struct tek_until until)
{
	int error = 0;

	if (__builtin_expect(!tek_sync__process_is_ours(process), 0))
		error = tek_sync__forked_lock_adopt_until(lock, process, kind, until);
	return error ? error : kind->lock_until(lock, until);
}

/* Releases the lock. Returns 0. */
static inline int tek_sync__forked_unlock(struct tek_lock *lock, atomic_uint *process,
					  const struct tek_lock_kind *kind)
{
	return __builtin_expect(tek_sync__process_is_ours(process), 1)
		       ? kind->unlock(lock)
		       : tek_sync__forked_lock_unlock(lock, process, kind);
}

#endif
