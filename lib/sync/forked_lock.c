/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/forked_lock.h"

#include "sync/waiting.h"

#define NAP_NS 1000000

static bool is_held_elsewhere(unsigned int seen)
{
	return (seen & TEK_PROCESS_HELD) && (seen & ~TEK_PROCESS_FLAGS) != tek__process();
}

static void clear(struct tek_lock *lock, atomic_uint *process)
{
	atomic_store_explicit(&lock->second, 0, memory_order_relaxed);
	atomic_store_explicit(&lock->first, 0, memory_order_relaxed);
	tek__process_claimed(process);
}

bool tek__forked_lock_adopt(struct tek_lock *lock, atomic_uint *process)
{
	if (is_held_elsewhere(atomic_load_explicit(process, memory_order_relaxed)))
		return false;
	if (tek__process_claim(process))
		clear(lock, process);
	return true;
}

/* If its holder is not in this process it waits for ever, so it does not spin for long. */
int tek__forked_lock_adopt_until(struct tek_lock *lock, atomic_uint *process,
				 struct tek_until until)
{
	int error = 0;

	while (!error && !tek__forked_lock_adopt(lock, process)) {
		struct tek_spinning spinning = {0}; /* looks at the time each time */
		error = tek__spin_until(&spinning, until);
		if (!error)
			tek__nap(NAP_NS);
	}
	return error;
}

/* Nobody of this process has touched the lock. */
void tek__forked_lock_unlock(struct tek_lock *lock, atomic_uint *process)
{
	if (is_held_elsewhere(atomic_load_explicit(process, memory_order_relaxed)))
		clear(lock, process);
}
