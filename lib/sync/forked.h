/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fork(2): the child has one thread and the memory of all.  Objects at which others wait in the parent have these in
 * their queues there, on stacks that are not theirs any more, and nobody is there who could be handed a lock or be woken.
 *
 * One rule for all of them: an object says which process wrote it last.  Where that is another one, whoever comes first
 * takes the queue for empty, and touches nothing of it.
 *
 * A process is known by a number in a page that the kernel clears in the child (madvise(2), MADV_WIPEONFORK): so it is
 * right in everybody's pthread_atfork(3) handlers, and after _Fork(3).
 */
#ifndef TEK_SYNC_FORKED_H
#define TEK_SYNC_FORKED_H

#include <stdatomic.h>
#include <stdbool.h>

/* Beside the number in an object's word: one thread puts it in order. */
#define TEK_PROCESS_CLAIMED 1u
/* The number of the first process, and the step to the next one. */
#define TEK_PROCESS_FIRST 2u

extern atomic_uint *tek__process_word __attribute__((visibility("hidden")));

/* In a child that nobody has asked yet. */
__attribute__((cold, noinline)) unsigned int tek__process_ask(void);

/* Which process this is of those that have had memory in common: not 0, and without CLAIMED. */
static inline unsigned int tek__process(void)
{
	const unsigned int number = atomic_load_explicit(tek__process_word, memory_order_relaxed);
	return __builtin_expect(number != 0, 1) ? number : tek__process_ask();
}

/* Whether this process wrote it last.  Acquires what tek__process_claimed() has released. */
static inline bool tek__process_is_ours(atomic_uint *process)
{
	const unsigned int seen = atomic_load_explicit(process, memory_order_acquire);
	return seen == tek__process();
}

/*
 * Makes an object that another process wrote last this one's: true in one thread, which puts it in order and then says
 * tek__process_claimed(), while others wait; false when that was done.
 */
bool tek__process_claim(atomic_uint *process);
void tek__process_claimed(atomic_uint *process);

/* Once, before the process forks; by a constructor at the latest. */
void tek__process_start(void);

#endif
