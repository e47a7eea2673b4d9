/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that wait in the kernel in a call that the engine does not know: a futex(2) of OpenMP, a file of a library.
 *
 * A tick that interrupts such a wait finds the thread at the instruction of the system call, which the kernel makes
 * again when the handler returns.  If another thread is ready the one that waits leaves its worker there, to a spare
 * carrier, and waits on without it, as if the monitor had taken it (carrier.h).
 *
 * A quantum is long for that: a program that waits so at each barrier would stand still most of the time.  So for a while
 * after such a wait the workers' timers look more often.  A quantum is as long as before.
 */
#ifndef TEK_UTHREAD_KERNEL_WAIT_H
#define TEK_UTHREAD_KERNEL_WAIT_H

#include "uthread/worker.h"

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/* Whether the tick has interrupted a system call that is made again. */
bool tek__kernel_wait_was_interrupted(const ucontext_t *context);

/* In the handler of a tick that has found one; says so once if there are many. */
void tek__kernel_wait_found(const ucontext_t *context);

/* How often the timer of a worker ticks now, in ns: a quantum, or less. */
uint64_t tek__kernel_wait_interval(void);

/* How many of these ticks make a quantum, 1 or more. */
unsigned int tek__kernel_wait_looks(uint64_t interval);

/* In the child of fork(): none was found. */
void tek__kernel_wait_after_fork(void);

#endif
