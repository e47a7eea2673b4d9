/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The allocator's one lock: a futex with priority inheritance, after a few turns of spinning.
 *
 * Inheritance, because a time-critical thread that wants memory must not wait longer than the work that is left to the
 * holder, who would otherwise not run while others of a middling priority do.  Spinning, because under the lock little
 * is done, and the kernel hands such a lock from one to the next, a switch of threads each.
 *
 * Its owner is a thread of the kernel.  User-level threads hold it, too: whoever runs on this thread of the kernel, as
 * the engine takes nobody off the CPU within this library (uthread/zones.c).  A thread of the kernel that has the lock
 * and asks for it again is in a signal handler, and gets "no".
 *
 * Nobody takes it for a fork(2): the C library's locks are taken then, whose holders may want memory.  A child finds out
 * that it is one when it first wants the lock, and frees it if a thread has it that is not there.
 */
#ifndef TEK_ALLOC_LOCK_H
#define TEK_ALLOC_LOCK_H

#include <stdbool.h>

struct tek_alloc_lock {
	unsigned int word; /* 0, or the holder's tid, with FUTEX_WAITERS; futex(2), PI futexes */
	bool was_left; /* under the lock: at a fork a thread had it; who sees this mends what it protects */
};

/* Once, before there are threads. Until then each call asks the kernel who calls. */
void tek__alloc_lock_start(struct tek_alloc_lock *lock);

/* False: the calling thread holds it. errno stays. */
bool tek__alloc_lock(struct tek_alloc_lock *lock);

void tek__alloc_unlock(struct tek_alloc_lock *lock);

#endif
