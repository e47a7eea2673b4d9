/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The common part of ticket locks: the first word is the next ticket, the second the one now
 * served.
 */
#ifndef TEK_SYNC_TICKET_H
#define TEK_SYNC_TICKET_H

#include "sync/lock.h"

/*
 * Relaxed: the order comes from tek_sync__ticket_served(), which the waiter calls until it is
 * served.
 */
static inline uintptr_t tek_sync__ticket_take(struct tek_lock *lock)
{
	return atomic_fetch_add_explicit(&lock->first, 1, memory_order_relaxed);
}

/*
 * True while that ticket is not served yet. A double unlock serves two tickets, and the waiter of
 * the first may read the second number only.
 */
static inline bool tek_sync__ticket_is_before(uintptr_t served, uintptr_t ticket)
{
	return (intptr_t)(served - ticket) < 0;
}

/* A waiter that finds itself served calls tek_sync__ticket_begin(). */
static inline uintptr_t tek_sync__ticket_served(struct tek_lock *lock)
{
	return atomic_load_explicit(&lock->second, memory_order_relaxed);
}

/* Acquires: synchronises with the store that serves this one. */
static inline uintptr_t tek_sync__ticket_begin(struct tek_lock *lock)
{
	return atomic_load_explicit(&lock->second, memory_order_acquire);
}

/*
 * The served number never passes the next ticket. So if the next ticket equals the number served,
 * the lock is free. Loading `served` acquires what the last holder did.
 */
static inline bool tek_sync__ticket_try(struct tek_lock *lock)
{
	uintptr_t served = tek_sync__ticket_begin(lock);

	return atomic_load_explicit(&lock->first, memory_order_relaxed) == served &&
	       atomic_compare_exchange_strong_explicit(&lock->first, &served, served + 1,
						       memory_order_relaxed, memory_order_relaxed);
}

static inline bool tek_sync__ticket_is_taken(const struct tek_lock *lock)
{
	return atomic_load_explicit(&lock->first, memory_order_relaxed) !=
	       atomic_load_explicit(&lock->second, memory_order_relaxed);
}

/* Only the holder writes this word. */
static inline int tek_sync__ticket_unlock(struct tek_lock *lock)
{
	const uintptr_t served = atomic_load_explicit(&lock->second, memory_order_relaxed);

	if (__builtin_expect(tek_sync__ticket_is_taken(lock), 1))
		atomic_store_explicit(&lock->second, served + 1, memory_order_release);
	return 0;
}

#endif
