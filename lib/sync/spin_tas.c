/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Test-and-set in one word: lock_tas.c. */
#include "sync/spin.h"
#include "sync/waiting.h"

/* Synchronises with the store that unlocks. */
static bool try(atomic_uint *word)
{
	return atomic_exchange_explicit(word, 1, memory_order_acquire) == 0;
}

static void lock(atomic_uint *word)
{
	struct tek_spinning spinning = {0};

	while (!try(word))
		tek_sync__spin(&spinning);
}

static void unlock(atomic_uint *word)
{
	atomic_store_explicit(word, 0, memory_order_release);
}

const struct tek_spin_kind tek_sync__spin_tas = {
	.name = "tas",
	.lock = lock,
	.try = try,
	.unlock = unlock,
};
