/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * setuid(2) and its like change one kernel thread. The C library applies them to all of a process,
 * by a signal of its own. The handler marks the thread that owns the current storage as done.
 * A kernel thread that runs a user-level thread with storage of its own would mark the wrong
 * thread. The C library would then wait for ever. So the handler is called with the storage of the
 * kernel thread.
 *
 * The signal is one of those that the C library reserves (reserved.h). Our handler comes before the
 * C library's, for each of them. Code that blocks signals of a kernel thread for longer, by the
 * system call, must leave them out: tek_ut__blockable_signals().
 */
#ifndef TEK_UTHREAD_SETXID_H
#define TEK_UTHREAD_SETXID_H

#include <stdint.h>

/* The calling kernel thread has the storage of this thread pointer, its current one; it ends. */
void tek_ut__setxid_kernel_thread(uintptr_t pointer);
void tek_ut__setxid_forget(void);

/*
 * Puts our handler before the C library's, if that is installed: the C library does so with the
 * first kernel thread that it makes. So after that; again does no harm.
 */
void tek_ut__setxid_start(void);

/*
 * In the child of fork() the C library waits for no thread, and the calling kernel thread has the
 * caller's storage.
 */
void tek_ut__setxid_after_fork(uintptr_t pointer);

#endif
