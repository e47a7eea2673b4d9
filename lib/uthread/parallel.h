/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From one kernel thread in the engine to several.
 *
 * With one worker its kernel thread is mostly the only one that ever enters the engine. While that
 * is so tek_ut__parallel() is false: locks are not taken (spin.h), and plain instructions replace
 * atomic ones (guard.h). Kernel threads of the program, or of the engine, may need the engine
 * later. Each first asks (tek_ut__come_in(), tek_ut__enter()), and waits until the carrier has
 * granted it. From then on, for good, tek_ut__parallel() is true.
 *
 * The carrier grants at a moment at which no thread is in the middle of an operation that it began
 * because the flag was false. There are two kinds of such operations:
 *
 *   - Code between tek_ut__enter() and tek_ut__leave(). The carrier grants after it
 *     (tek_ut__leave_pending()), in a tick handler that has found `defer` at 0, or in its own
 *     context between two threads (idle.c). A thread that the carrier does not run has left it
 *     inside the engine, at a switch: no thread switches with a lock, and none relies afterwards on
 *     an earlier tek_ut__parallel(). Or it left in the handler of a tick, with `defer` at 0, or in
 *     a handler of the program, likewise (posix/action.c).
 *   - Plain instructions without tek_ut__enter(): a restartable sequence reads the flag and changes
 *     a word, and a signal may arrive in between. Each sequence is listed (TEK_RESTARTABLE). A
 *     handler that interrupts one restarts it, before anything else (tek_ut__restart_sequence()).
 *     So the sequence reads the flag again after the handler.
 *
 * So nothing is half done at that moment. The carrier, which writes the flag, reads it as true from
 * then on. The asking thread does so as soon as its call returns, and sees all earlier writes:
 * release and acquire.
 *
 * A kernel thread that asks for the first time may wait. It waits while the carrier defers
 * preemption, is in a handler of the program, or is stopped by the kernel. It may hold locks of the
 * C library meanwhile: the tick reaches a carrier that waits for one of them.
 */
#ifndef TEK_UTHREAD_PARALLEL_H
#define TEK_UTHREAD_PARALLEL_H

#include "uthread/here.h"
#include "uthread/spin.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <ucontext.h>

/*
 * By the engine's start, before it makes kernel threads. `now`: there are several from the
 * beginning; `later`: more may come (tek_ut__engine.foreign). Where a later change is impossible it
 * happens now.
 */
void tek_ut__parallel_start(bool now, bool later);

/* As soon as there is a carrier: the engine's own start, alone, was no reason to ask. */
void tek_ut__parallel_started(void);

/* By a kernel thread that has no worker: returns when it may use the engine. */
void tek_ut__parallel_begin(void);

/*
 * By a possible kernel thread, before code that elsewhere runs between tek_ut__enter(), which does
 * the same, and tek_ut__leave(). False: the caller is a kernel thread and no carrier can grant,
 * since the engine does not run: the caller does without.
 */
static inline bool tek_ut__come_in(void)
{
	if (__builtin_expect(tek_ut__here_entry() != NULL, 1) || tek_ut__parallel())
		return true;
	tek_ut__parallel_begin();
	return tek_ut__parallel();
}

/* By the carrier, where it can grant: see above. */
extern atomic_uint tek_ut__parallel_asked __attribute__((visibility("hidden")));
void tek_ut__parallel_grant(void);

static inline void tek_ut__parallel_check(void)
{
	if (__builtin_expect(
		    atomic_load_explicit(&tek_ut__parallel_asked, memory_order_relaxed) != 0, 0))
		tek_ut__parallel_grant();
}

/* In the child of fork(), by a user-level thread: the asking thread is not there. */
void tek_ut__parallel_after_fork(void);

/*
 * First thing in a handler that may switch, or call the program: it has interrupted this context.
 */
void tek_ut__restart_sequence(ucontext_t *context);

#endif
