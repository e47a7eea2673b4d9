/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The lock of a synchronisation object is one bit of the word that says what state the object is in.
 *
 * So one store gives back the lock and publishes the new state, and it is the last thing that is done to the
 * object.  Who unlocks a mutex must not touch it afterwards: the next owner may have unlocked, destroyed and
 * freed it by then.  With a lock beside the state that could not be had.
 *
 * As with struct tek_spin, who takes it has deferred preemption (worker.h), and with tek__parallel false that is
 * all there is to it: the bit is never set.
 *
 * While the bit is set only its holder writes the word: everybody else changes it by compare-and-exchange
 * from a value without the bit, or waits for the bit.
 */
#ifndef TEK_UTHREAD_GUARD_H
#define TEK_UTHREAD_GUARD_H

#include "uthread/spin.h"

#include <stdatomic.h>
#include <stdbool.h>

/*
 * If *word is `from` it becomes `to`; returns whether it was.  Unlike tek__change() it may be used without
 * tek__enter(): nothing comes in between.  With one kernel thread an instruction without the lock prefix will
 * do, because a signal comes before an instruction or after it.
 *
 * Order: acquire and release, as both uses need one of them.
 */
static inline bool tek__change_unsplit(atomic_uint *word, unsigned int from, unsigned int to)
{
#if defined(__x86_64__) || defined(__i386__)
	if (__builtin_expect(!tek__parallel, 1)) {
		bool changed;
		__asm__ volatile("cmpxchgl %3, %1"
				 : "=@ccz"(changed), "+m"(*(volatile unsigned int *)word),
				   "+a"(from)
				 : "r"(to)
				 : "memory");
		return changed;
	}
#endif
	return atomic_compare_exchange_strong_explicit(word, &from, to, memory_order_acq_rel,
						       memory_order_relaxed);
}

/*
 * Sets the lowest bit, which is no guard; returns whether it was clear.  With tek__parallel false only: there it is
 * the quickest way to say "mine", whatever else the word says.
 */
static inline bool tek__take_lowest_unsplit(atomic_uint *word)
{
#if defined(__x86_64__) || defined(__i386__)
	bool was;
	__asm__ volatile("btsl $0, %1"
			 : "=@ccc"(was), "+m"(*(volatile unsigned int *)word)
			 :
			 : "memory");
	return !was;
#else
	return !(atomic_fetch_or_explicit(word, 1, memory_order_acquire) & 1);
#endif
}

/* Until somebody else has cleared the bit. */
void tek__guard_wait(atomic_uint *word, unsigned int bit);

/* Takes the bit; returns the word without it. */
static inline unsigned int tek__guard_lock(atomic_uint *word, unsigned int bit)
{
	if (__builtin_expect(!tek__parallel, 1))
		return atomic_load_explicit(word, memory_order_relaxed);
	unsigned int old;
	while (__builtin_expect(
		(old = atomic_fetch_or_explicit(word, bit, memory_order_acquire)) & bit, 0))
		tek__guard_wait(word, bit);
	return old;
}

/* Gives it back, and the word becomes `value`, which does not have the bit. */
static inline void tek__guard_unlock(atomic_uint *word, unsigned int value)
{
	/* Release: all that was done under the bit comes before. */
	atomic_store_explicit(word, value, memory_order_release);
}

/*
 * By somebody who was woken under the bit, before he lets the object go: who woke him may not have
 * given it back yet.  Not deferred.
 */
static inline void tek__guard_pass(atomic_uint *word, unsigned int bit)
{
	if (tek__parallel &&
	    __builtin_expect(atomic_load_explicit(word, memory_order_acquire) & bit, 0))
		tek__guard_wait(word, bit);
}

#endif
