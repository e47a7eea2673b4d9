/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Alternate signal stacks (sigaltstack(2)), each with a guard page, for threads whose stack TEK
 * fitted: where a stack is full a handler cannot run on it.
 *
 * A thread's end is not told to the kernel: it costs a system call.  So a signal stack that was
 * released still belongs to its thread until that is gone for sure: when the C library gives its
 * pthread_t to another thread, which then gets the same signal stack, or the kernel does not
 * know its id any more.
 */
#ifndef TEK_STACK_SIGNAL_STACK_H
#define TEK_STACK_SIGNAL_STACK_H

#include <stddef.h>

struct tek_thread;

/* One for the calling thread, in thread->stack; none without memory. Needs the lock. */
void tek__signal_stack_take(struct tek_thread *thread);

/* It is the calling thread's from here on, unless that has one already. Needs no lock. */
void tek__signal_stack_give(const struct tek_thread *thread);

/* The thread is at its end, or gone. Needs the lock. */
void tek__signal_stack_release(struct tek_thread *thread);

/* How many there are, in use or not; bytes of each, guard not included. For tests. */
size_t tek__signal_stack_count(void);
size_t tek__signal_stack_bytes(void);

/* In the child of a fork. */
void tek__signal_stack_forget(void);

#endif
