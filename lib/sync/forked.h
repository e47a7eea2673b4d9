/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Objects after fork(2): the child has one thread and a copy of all memory. An object's queue in
 * the child still has the parent's waiters, which do not exist there: none can own a lock or be
 * woken.
 *
 * One rule for all objects: each records the process that wrote it last. Where that is another
 * process, the first thread to use the object takes the queue as empty and does not access its
 * entries.
 *
 * A process is identified by a number in a page that the kernel clears in the child (madvise(2),
 * MADV_WIPEONFORK). So the number is right in all pthread_atfork(3) handlers, and after _Fork(3).
 */
#ifndef TEK_SYNC_FORKED_H
#define TEK_SYNC_FORKED_H

#include <stdatomic.h>
#include <stdbool.h>

/* Flag beside the number in an object's word: one thread is resetting the object. */
#define TEK_PROCESS_CLAIMED 1u
/* The number of the first process, and the step to the next one. */
#define TEK_PROCESS_FIRST 2u

extern atomic_uint *tek_sync__process_word __attribute__((visibility("hidden")));

/* Slow path: the first call in a child. */
__attribute__((cold, noinline)) unsigned int tek_sync__process_ask(void);

/*
 * The number of this process among those that descend from one another by fork(): not 0, without
 * CLAIMED.
 */
static inline unsigned int tek_sync__process(void)
{
	const unsigned int number = atomic_load_explicit(tek_sync__process_word,
							 memory_order_relaxed);
	return __builtin_expect(number != 0, 1) ? number : tek_sync__process_ask();
}

/* Whether this process wrote it last.  Acquires what tek_sync__process_claimed() has released. */
static inline bool tek_sync__process_is_ours(atomic_uint *process)
{
	const unsigned int seen = atomic_load_explicit(process, memory_order_acquire);
	return seen == tek_sync__process();
}

/*
 * Takes over an object that another process wrote last. True in one thread: it resets the object
 * and then calls tek_sync__process_claimed(), while the other callers wait. False once that is
 * done.
 */
bool tek_sync__process_claim(atomic_uint *process);
void tek_sync__process_claimed(atomic_uint *process);

/* Once, before the process forks; by a constructor at the latest. */
void tek_sync__process_start(void);

#endif
