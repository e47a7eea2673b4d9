/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The memory of user-level threads and their stacks: blocks of one size. Each has a guard page, a
 * stack, and on top of it the thread's structure: a thread that does little touches one page.
 *
 * Blocks are never given back to the kernel: a thread with an old address of one may read it. The
 * used part of a large stack is given back (MADV_DONTNEED).
 */
#ifndef TEK_UTHREAD_STACKS_H
#define TEK_UTHREAD_STACKS_H

#include "uthread/thread.h"

struct tek_worker;

/* Block sizes are multiples of the page size; the smallest stack that can be requested. */
#define TEK_STACK_LEAST 16384

/*
 * The structure of a block with a stack of at least so many bytes (0: the engine's default), from
 * the worker's pool or a common one, or new; only stack_low, stack_bytes and block_bytes are set.
 * NULL: there is no memory.
 */
struct tek_uthread *tek_ut__stacks_take(struct tek_worker *worker, size_t stack_bytes);

/* Where its block ends, with the structure. Not of the first thread. */
char *tek_ut__stack_end(const struct tek_uthread *thread);

/* Gives it back. `worker` may be NULL. */
void tek_ut__stacks_give(struct tek_worker *worker, struct tek_uthread *thread);

/* For the engine itself: a block of its own, which is not of a pool. NULL: there is no memory. */
struct tek_uthread *tek_ut__stacks_take_own(size_t stack_bytes);

/*
 * Makes so many of the default size, and no more for threads from then on: once they are used up
 * tek_ut__stacks_take() returns NULL. By the first thread, before there are more. 0 or ENOMEM.
 */
int tek_ut__stacks_prepare(unsigned int count);

/* In the child of fork(). */
void tek_ut__stacks_after_fork(void);

#endif
