/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The start of the engine in a pthread program: by a constructor of libtek-uthread.so, before
 * main() and before the constructors of the program. Earlier calls, by other libraries, go to the C
 * library.
 */
#ifndef TEK_UTHREAD_POSIX_START_H
#define TEK_UTHREAD_POSIX_START_H

#include <stdbool.h>

/*
 * With the options of TEK_UTHREAD. Wrong and unavailable options are reported on standard error;
 * without an engine the program has the C library's threads.
 */
void tek_ut__posix_start(void);

/*
 * Whether the caller is a child of vfork(2): its memory is its parent's, and the parent's tables
 * must not change.
 */
bool tek_ut__start_is_borrowed(void);

/*
 * Handlers for fork(): they are registered before all other ones, and work from the engine's start
 * on.
 */
void tek_ut__fork_register(void);
void tek_ut__fork_start(void);

/* In the child of fork(): it is a process of its own. */
void tek_ut__start_after_fork(void);

#endif
