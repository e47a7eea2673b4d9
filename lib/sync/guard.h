/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An object lock that protects a list for a few instructions: a word, 0 or the number of the
 * process that holds it (forked.h). In the child of a fork() the word may hold the parent's number;
 * the child then takes it as free.
 */
#ifndef TEK_SYNC_GUARD_H
#define TEK_SYNC_GUARD_H

#include "sync/forked.h"
#include "sync/waiting.h"

static inline bool tek_sync__guard_try(atomic_uint *guard)
{
	const unsigned int mine = tek_sync__process();
	unsigned int seen = atomic_load_explicit(guard, memory_order_relaxed);

	return seen != mine &&
	       atomic_compare_exchange_weak_explicit(guard, &seen, mine, memory_order_acquire,
						     memory_order_relaxed);
}

static inline void tek_sync__guard_hold(atomic_uint *guard)
{
	struct tek_spinning spinning = {0};

	while (!tek_sync__guard_try(guard))
		tek_sync__spin(&spinning);
}

static inline void tek_sync__guard_let_go(atomic_uint *guard)
{
	atomic_store_explicit(guard, 0, memory_order_release);
}

#endif
