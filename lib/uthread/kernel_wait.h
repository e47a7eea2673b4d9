/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that wait in the kernel in a call that the engine does not know: a futex(2) of OpenMP, a
 * file of a library.
 *
 * A tick that interrupts such a wait finds the thread at the instruction of the system call, which
 * the kernel restarts when the handler returns. If another thread is ready the waiting one leaves
 * its worker to a spare carrier there. It waits on without the worker, as if the monitor had taken
 * that (carrier.h).
 *
 * A quantum is long for that: a program that waits so at each barrier would stand still most of the
 * time. So for a while after such a wait the workers' timers tick more often. A quantum is as long
 * as before.
 */
#ifndef TEK_UTHREAD_KERNEL_WAIT_H
#define TEK_UTHREAD_KERNEL_WAIT_H

#include "uthread/worker.h"

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/* Whether the tick has interrupted a system call that will be restarted. */
bool tek_ut__kernel_wait_was_interrupted(const ucontext_t *context);

/* In the handler of a tick that has found one; reports once if there are many. */
void tek_ut__kernel_wait_found(const ucontext_t *context);

/* The current tick interval of a worker's timer, in ns: a quantum, or less. */
uint64_t tek_ut__kernel_wait_interval(void);

/* The number of these ticks in a quantum, 1 or more. */
unsigned int tek_ut__kernel_wait_polls(uint64_t interval);

/* In the child of fork(): none was found. */
void tek_ut__kernel_wait_after_fork(void);

#endif
