/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A lock of whatever kind with a word that says which process wrote it last, and whether it is locked: forked.h.  Zero,
 * beside a lock of zeros, is a free one.
 *
 * What a child finds free is free: what is left in it are those who waited in the parent, or were between the word and the
 * lock.  What it finds locked is locked until the thread that was so when it forked unlocks it; until then the others
 * wait beside the lock.  The holder itself, or the first one, makes it a lock of zeros, which is a free one of each kind.
 */
#ifndef TEK_SYNC_FORKED_LOCK_H
#define TEK_SYNC_FORKED_LOCK_H

#include "sync/forked.h"
#include "sync/lock.h"

/* Where another process wrote it last.  False: it was locked then. */
bool tek__forked_lock_adopt(struct tek_lock *lock, atomic_uint *process);
/* Waits for that: 0, ETIMEDOUT, EINVAL. */
int tek__forked_lock_adopt_until(struct tek_lock *lock, atomic_uint *process,
				 struct tek_until until);
/* By a holder since before the fork; or it is not locked, then nothing happens. */
void tek__forked_lock_unlock(struct tek_lock *lock, atomic_uint *process);

/* By who has locked it. */
static inline void tek__forked_lock_note(atomic_uint *process)
{
	atomic_store_explicit(process, tek__process() | TEK_PROCESS_HELD, memory_order_relaxed);
}

static inline void tek__forked_lock(struct tek_lock *lock, atomic_uint *process,
				    const struct tek_lock_kind *kind)
{
	if (__builtin_expect(!tek__process_is_ours(process), 0))
		tek__forked_lock_adopt_until(lock, process, TEK_FOR_EVER);
	kind->lock(lock);
	tek__forked_lock_note(process);
}

static inline bool tek__forked_lock_try(struct tek_lock *lock, atomic_uint *process,
					const struct tek_lock_kind *kind)
{
	if (__builtin_expect(!tek__process_is_ours(process), 0) &&
	    !tek__forked_lock_adopt(lock, process))
		return false;
	if (!kind->try(lock))
		return false;
	tek__forked_lock_note(process);
	return true;
}

static inline int tek__forked_lock_until(struct tek_lock *lock, atomic_uint *process,
					 const struct tek_lock_kind *kind, struct tek_until until)
{
	int error = 0;

	if (__builtin_expect(!tek__process_is_ours(process), 0))
		error = tek__forked_lock_adopt_until(lock, process, until);
	if (!error)
		error = kind->lock_until(lock, until);
	if (!error)
		tek__forked_lock_note(process);
	return error;
}

/* The word first: who has the lock next may free both. */
static inline void tek__forked_unlock(struct tek_lock *lock, atomic_uint *process,
				      const struct tek_lock_kind *kind)
{
	const unsigned int mine = tek__process();

	if (__builtin_expect(atomic_load_explicit(process, memory_order_relaxed) !=
				     (mine | TEK_PROCESS_HELD),
			     0)) {
		tek__forked_lock_unlock(lock, process);
		return;
	}
	atomic_store_explicit(process, mine, memory_order_relaxed);
	kind->unlock(lock);
}

#endif
