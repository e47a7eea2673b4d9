/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Preemption: a timer of each worker sends a signal (tick.h) to its carrier.
 *
 * Attempt, check, defer. The handler takes the running thread off its worker, in mid-run, unless
 *   - it is in the engine, or in a section that it declared (`defer`): it leaves by itself at its
 *     end,
 *   - it is in a non-preemptible section: the C library, the loader, allocators (sections.h):
 *     another try soon,
 *   - it is in a signal handler of the program, or has blocked signals there: the next tick tries
 *     again.
 * The kernel has saved the rest of its registers in the handler's frame, on its own stack. So a
 * switch back to it is like any other.
 *
 * A worker's timer stops when a tick finds no ready thread, and no thread that waits for a time or
 * a file. It starts again when there is such a thread.
 *
 * Mode klt: non-preemptible sections defer nothing, and the handler switches no threads. The kernel
 * thread stops there, and another carries the worker on (carrier.h). Locks that a thread holds in
 * the C library or an allocator then belong to a kernel thread that still exists.
 */
#ifndef TEK_UTHREAD_PREEMPT_H
#define TEK_UTHREAD_PREEMPT_H

#include "uthread/worker.h"

#include <stdbool.h>
#include <ucontext.h>

int tek_ut__preempt_start(void);

/* A new carrier: it has a timer of its own. By that carrier. */
void tek_ut__preempt_add(struct tek_carrier *carrier);

/* It ends, and has no worker. */
void tek_ut__preempt_remove(struct tek_carrier *carrier);

/* Ticks of this worker no longer go to one carrier, or go to a new one. */
void tek_ut__preempt_lose(struct tek_worker *worker, struct tek_carrier *carrier);
void tek_ut__preempt_gain(struct tek_worker *worker, struct tek_carrier *carrier);

/* There is another thread to run: the timer runs. */
void tek_ut__preempt_needed(struct tek_worker *worker);

/* A thread goes before the one that runs there: that worker has to poll at once. */
void tek_ut__preempt_kick(struct tek_worker *worker);

/*
 * Called each time a thread that was stopped by a tick goes on, and each time a tick finds one
 * running, outside the engine; NULL: no callback. For posix/: signals and cancellation.
 * `in_program`: it is in code that can be left, not at the end of a function of ours.
 */
extern void (*tek_ut__preempt_resumed)(struct tek_uthread *self, bool in_program)
	__attribute__((visibility("hidden")));

/*
 * Called each time a tick finds a thread in a non-preemptible section, before anything else; it may
 * not return. NULL: no callback. `context`: what was interrupted. For posix/held.h.
 */
extern void (*tek_ut__preempt_held)(struct tek_uthread *self, ucontext_t *context)
	__attribute__((visibility("hidden")));

/* In the child of fork(): its carrier has no timer. */
void tek_ut__preempt_after_fork(struct tek_worker *worker, struct tek_carrier *carrier);

#endif
