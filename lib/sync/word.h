/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A lock of one word that records whether a thread sleeps, so that no system call is made without
 * sleepers. Any thread takes it when it is free.
 */
#ifndef TEK_SYNC_WORD_H
#define TEK_SYNC_WORD_H

#include "sync/parking.h"

#include <stdbool.h>

enum {
	TEK_WORD_FREE,
	TEK_WORD_LOCKED,
	TEK_WORD_PARKED, /* locked, and a thread may sleep */
};

/* Acquires: synchronises with the exchange that releases. */
static inline bool tek_sync__word_try(atomic_uint *word)
{
	unsigned int free = TEK_WORD_FREE;
	return atomic_compare_exchange_strong_explicit(word, &free, TEK_WORD_LOCKED,
						       memory_order_acquire, memory_order_relaxed);
}

/*
 * 0, ETIMEDOUT, EINVAL. A thread that has slept sets PARKED: it cannot know that no other one
 * sleeps.
 */
static inline int tek_sync__word_sleep(atomic_uint *word, struct tek_until until)
{
	while (atomic_exchange_explicit(word, TEK_WORD_PARKED, memory_order_acquire) !=
	       TEK_WORD_FREE) {
		int error = tek_sync__park(word, TEK_WORD_PARKED, until);
		if (error)
			return error;
	}
	return 0;
}

/* An exchange: a concurrent store of PARKED is either seen here or comes after it. */
static inline void tek_sync__word_unlock(atomic_uint *word)
{
	if (atomic_exchange_explicit(word, TEK_WORD_FREE, memory_order_release) == TEK_WORD_PARKED)
		tek_sync__unpark(word, 1);
}

#endif
