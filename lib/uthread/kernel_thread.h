/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Creates the engine's own kernel threads (carriers, the supplier, the monitor, the router), and
 * waits until one has begun or ended. It ends none. Thread-safe.
 */
#ifndef TEK_UTHREAD_KERNEL_THREAD_H
#define TEK_UTHREAD_KERNEL_THREAD_H

#include <sys/types.h>

/*
 * A kernel thread that blocks all signals and is never joined.  Its routine calls
 * tek_ut__kernel_thread_has_begun() as soon as its id can be found.  0 or an error number.
 */
int tek_ut__kernel_thread(void *(*routine)(void *), void *argument);
void tek_ut__kernel_thread_has_begun(void);

/* Waits, not for long, until the ids of all that have been made can be found. */
void tek_ut__kernel_threads_await_ids(void);

/* Waits, not for long, until the kernel thread with this id is gone; 0: there is none. */
void tek_ut__kernel_thread_await_end(pid_t tid);

/* In the child of fork(): none of them is there. */
void tek_ut__kernel_threads_after_fork(void);

#endif
