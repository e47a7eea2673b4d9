/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The allocator's one lock: a futex with priority inheritance, after a few spin iterations.
 *
 * Inheritance bounds the wait of a time-critical thread by the holder's remaining work: otherwise
 * threads of a middle priority could preempt the holder. Spinning pays because the lock is held for
 * a short time, and each hand-over by the kernel costs a context switch.
 *
 * Its owner is a kernel thread. The user-level thread on that kernel thread may hold it, as the
 * engine preempts no thread within this library (uthread/sections.c). A kernel thread that holds
 * the lock and requests it again is in a signal handler: the request fails.
 *
 * It is not taken for a fork(2): the C library's locks are taken then, and their holders may
 * allocate. A child detects the fork at its first request, and frees the lock if the holder does
 * not exist there.
 */
#ifndef TEK_ALLOC_LOCK_H
#define TEK_ALLOC_LOCK_H

#include <stdbool.h>

struct tek_alloc_lock {
	unsigned int word; /* 0, or the holder's tid, with FUTEX_WAITERS; futex(2), PI futexes */
	bool was_left;     /* under the lock: held at a fork; the next holder repairs the heap */
};

/* Once, before there are threads. Until then each call queries the thread id from the kernel. */
void tek_alloc__lock_start(struct tek_alloc_lock *lock);

/* False: the calling thread holds it. errno stays. */
bool tek_alloc__lock(struct tek_alloc_lock *lock);

void tek_alloc__unlock(struct tek_alloc_lock *lock);

#endif
