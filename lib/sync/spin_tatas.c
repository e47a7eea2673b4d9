/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Test, and test-and-set, in one word: lock_tatas.c. */
#include "sync/spin.h"
#include "sync/waiting.h"

/* Synchronises with the store that unlocks. */
static bool take(atomic_uint *word)
{
	return atomic_exchange_explicit(word, 1, memory_order_acquire) == 0;
}

static bool is_free(atomic_uint *word)
{
	return atomic_load_explicit(word, memory_order_relaxed) == 0;
}

static bool try(atomic_uint *word)
{
	return is_free(word) && take(word);
}

static void lock(atomic_uint *word)
{
	struct tek_spinning spinning = {0};

	while (!take(word))
		do
			tek_sync__spin(&spinning);
		while (!is_free(word));
}

static void unlock(atomic_uint *word)
{
	atomic_store_explicit(word, 0, memory_order_release);
}

const struct tek_spin_kind tek_sync__spin_tatas = {
	.name = "tatas",
	.lock = lock,
	.try = try,
	.unlock = unlock,
};
