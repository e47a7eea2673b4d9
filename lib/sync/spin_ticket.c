/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A ticket lock in one word: the next ticket in the upper half, the one that is served in the
 * lower.  For 65,535 threads that wait for one lock at most.
 */
#include "sync/spin.h"
#include "sync/waiting.h"

#include <stdint.h>

#define ONE_TICKET (1u << 16)

static uint16_t next_of(unsigned int word)
{
	return (uint16_t)(word >> 16);
}

static uint16_t served_of(unsigned int word)
{
	return (uint16_t)word;
}

/* As tek_sync__ticket_is_before(). */
static bool is_before(uint16_t served, uint16_t ticket)
{
	return (int16_t)(served - ticket) < 0;
}

/*
 * The word is as it was read when it is exchanged, so the lock is free then.  Acquires, as lock()
 * does.
 */
static bool try(atomic_uint *word)
{
	unsigned int seen = atomic_load_explicit(word, memory_order_relaxed);

	return next_of(seen) == served_of(seen) &&
	       atomic_compare_exchange_strong_explicit(word, &seen, seen + ONE_TICKET,
						       memory_order_acquire, memory_order_relaxed);
}

/*
 * Acquires when it reads its number. The unlocker wrote that, perhaps with tickets that other
 * threads have taken since. Those read and wrote it in one step, so they belong to the writer's
 * release sequence.
 */
static void lock(atomic_uint *word)
{
	struct tek_spinning spinning = {0};
	unsigned int seen = atomic_fetch_add_explicit(word, ONE_TICKET, memory_order_acquire);
	const uint16_t ticket = next_of(seen);

	if (served_of(seen) == ticket)
		return;
	do
		tek_sync__spin(&spinning);
	while (is_before(served_of(atomic_load_explicit(word, memory_order_relaxed)), ticket));
	(void)atomic_load_explicit(word, memory_order_acquire);
}

/*
 * Only the holder changes the lower half; the exchange includes the upper one, which all threads
 * change.
 */
static void unlock(atomic_uint *word)
{
	unsigned int seen = atomic_load_explicit(word, memory_order_relaxed), next;

	do {
		if (next_of(seen) == served_of(seen)) /* it is free */
			return;
		next = (seen & ~0xffffu) | (uint16_t)(seen + 1);
	} while (!atomic_compare_exchange_weak_explicit(word, &seen, next, memory_order_release,
							memory_order_relaxed));
}

const struct tek_spin_kind tek_sync__spin_ticket = {
	.name = "ticket",
	.lock = lock,
	.try = try,
	.unlock = unlock,
};
