/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Alternate signal stacks (sigaltstack(2)), each with a guard page, for threads whose stack TEK
 * fitted: where a stack is full a handler cannot run on it.
 */
#ifndef TEK_STACK_SIGNAL_STACK_H
#define TEK_STACK_SIGNAL_STACK_H

struct tek_thread;

/* The calling thread gets one, unless it has one. Needs no lock. */
void tek__signal_stack_give(struct tek_thread *thread);

/* The thread is at its end, or gone. Needs the lock. */
void tek__signal_stack_release(struct tek_thread *thread);

/* In the child of a fork. */
void tek__signal_stack_forget(void);

#endif
