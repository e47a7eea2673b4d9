/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Alternate signal stacks (sigaltstack(2)), each with a guard page, for threads with a stack that
 * TEK fitted: where a stack is full a handler cannot run on it. The program's own handlers with
 * SA_ONSTACK run there too: the kernel knows one alternate stack for all signals, and TEK cannot
 * bring a handler back to the thread's stack without hiding its callers from unwinders. So each has
 * 64 KiB for a handler; 8 KiB where all the large ones together would take more than a 64th of the
 * addresses that the process may have (RLIMIT_AS, 32-bit programs).
 *
 * A thread does not unregister its signal stack at its end: that costs a system call. So a released
 * signal stack still belongs to its thread until that is gone for sure: when the C library gives
 * its pthread_t to another thread, which then gets the same signal stack, or when the kernel does
 * not know its id any more.
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

/* How many there are, in use or not. For tests. */
size_t tek__signal_stack_count(void);

/* In the child of a fork. */
void tek__signal_stack_forget(void);

#endif
