/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/forked_lock.h"

#include "sync/waiting.h"

#define NAP_NS 1000000

/* A word that is claimed and not reset yet, of any process, is free. */
static bool is_held(const struct tek_lock *lock, atomic_uint *process,
		    const struct tek_lock_kind *kind)
{
	return !(atomic_load_explicit(process, memory_order_acquire) & TEK_PROCESS_CLAIMED) &&
	       kind->is_locked(lock);
}

static void clear(struct tek_lock *lock, atomic_uint *process)
{
	atomic_store_explicit(&lock->second, 0, memory_order_relaxed);
	atomic_store_explicit(&lock->first, 0, memory_order_relaxed);
	tek_sync__process_claimed(process);
}

/*
 * While the word names another process, only the thread that has claimed the lock writes it, to
 * clear it. Once the word names this process, the lock is simply locked.
 */
bool tek_sync__forked_lock_adopt(struct tek_lock *lock, atomic_uint *process,
				 const struct tek_lock_kind *kind)
{
	if (is_held(lock, process, kind))
		return tek_sync__process_is_ours(process);
	if (tek_sync__process_claim(process))
		clear(lock, process);
	return true;
}

/* If its holder is not in this process it waits for ever, so it does not spin for long. */
int tek_sync__forked_lock_adopt_until(struct tek_lock *lock, atomic_uint *process,
				      const struct tek_lock_kind *kind, struct tek_until until)
{
	int error = 0;

	while (!error && !tek_sync__forked_lock_adopt(lock, process, kind)) {
		struct tek_spinning spinning = {0}; /* looks at the time each time */
		error = tek_sync__spin_until(&spinning, until);
		if (!error)
			tek_sync__nap(NAP_NS);
	}
	return error;
}

int tek_sync__forked_lock_unlock(struct tek_lock *lock, atomic_uint *process,
				 const struct tek_lock_kind *kind)
{
	if (is_held(lock, process, kind) && tek_sync__process_claim(process)) {
		if (kind->leave)
			kind->leave(lock);
		clear(lock, process);
	}
	return 0;
}
