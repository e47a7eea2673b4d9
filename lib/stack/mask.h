/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * SIGSEGV in the signal masks of fitted threads. A program that blocks all signals in a thread
 * blocks SIGSEGV too, and the kernel kills it for a fault then, without TEK's handler: an overflow
 * would be neither reported nor learnt. So the kernel does not block it there, and TEK acts as if
 * it were blocked: a fault kills, and a SIGSEGV that was sent waits.
 *
 * Other threads' masks are the kernel's alone, and so are those set in other ways than by
 * pthread_sigmask(3) and sigprocmask(2).
 */
#ifndef TEK_STACK_MASK_H
#define TEK_STACK_MASK_H

#include <signal.h>
#include <stdbool.h>
#include <ucontext.h>

typedef int tek__mask_function(int how, const sigset_t *set, sigset_t *old);

/* At the start of the process: whether it was started with SIGSEGV blocked. */
void tek__mask_start(void);

/*
 * The calling thread is fitted, or its creator blocks SIGSEGV and the kernel does not know it
 * (`hidden`): from here on it is as above.  Needs no lock.
 */
void tek__mask_begin(bool hidden);

/* Whether the calling thread blocks SIGSEGV without the kernel's knowledge. Async-signal-safe. */
bool tek__mask_is_hidden(void);

/* As `real`, which is pthread_sigmask or sigprocmask. Async-signal-safe. */
int tek__mask_change(tek__mask_function *real, int how, const sigset_t *set, sigset_t *old);

/* In the handler: SIGSEGV was sent to a thread that blocks it. Have it wait. */
void tek__mask_keep(const siginfo_t *info, ucontext_t *context);

#endif
