/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From one kernel thread in the engine to several.
 *
 * With one worker the kernel thread that carries it is mostly the only one that ever comes to the engine.  While that is
 * so tek__parallel() is false: locks are not taken (spin.h), and what would be an atomic instruction is a plain one
 * (guard.h).  Kernel threads of the program's own may come later, and those of the engine that have something to tell
 * a thread: each of them asks first (tek__come_in(), tek__enter()), and waits until the carrier has seen to it.  From then
 * on, for good, tek__parallel() is true.
 *
 * The carrier does that itself, at a moment at which nobody is in the middle of something that he began because it was
 * false.  There are two kinds of that:
 *
 *   - What is done between tek__enter() and tek__leave().  The carrier does it after that (tek__leave_pending()), in
 *     the handler of a tick that has found `defer` at 0, or in its own context between two threads (idle.c).  Threads
 *     that it does not run have left it inside the engine, where nobody holds a lock when he switches, and
 *     nothing that was read of tek__parallel() before is believed afterwards; or in the handler of a tick,
 *     with `defer` at 0; or in a handler of the program, of which the same is true (posix/action.c).
 *   - Plain instructions without tek__enter(): a quick sequence reads the flag and changes a word, and a signal may come in
 *     between.  Each sequence is listed (TEK_QUICK), and a handler that interrupts one sends it back to its
 *     beginning, before it does anything else (tek__quick_restart()).  So whatever happens in the handler, the
 *     sequence reads the flag again.
 *
 * So at that moment nothing is half done, and the carrier, which is who writes the flag, reads it as true from then on.
 * Who has asked does so as soon as it returns, and finds all that was done before: release and acquire.
 *
 * A kernel thread that asks for the first time waits while the carrier is in a section that defers preemption, in
 * a handler of the program, or stopped by the kernel.  It may hold locks of the C library meanwhile: the tick reaches a
 * carrier that waits for one of them.
 */
#ifndef TEK_UTHREAD_PARALLEL_H
#define TEK_UTHREAD_PARALLEL_H

#include "uthread/here.h"
#include "uthread/spin.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <ucontext.h>

/*
 * By the engine's start, before it makes kernel threads.  `now`: there are several from the beginning; `later`: others may come (tek__engine.foreign).
 * Where it could not be done later it is done now.
 */
void tek__parallel_start(bool now, bool later);

/* And as soon as there is a carrier: what the engine's start did before, alone, was no reason to ask. */
void tek__parallel_started(void);

/* By a kernel thread that has no worker: returns when it may do what it wants to. */
void tek__parallel_begin(void);

/*
 * By whoever may be one, before what others do between tek__enter(), which does the same, and tek__leave().  False: it is
 * one, and nobody is there to be asked, since the engine does not run: it does without.
 */
static inline bool tek__come_in(void)
{
	if (__builtin_expect(tek__here_entry() != NULL, 1) || tek__parallel())
		return true;
	tek__parallel_begin();
	return tek__parallel();
}

/* By the carrier, where it can be done: see above. */
extern atomic_uint tek__parallel_asked __attribute__((visibility("hidden")));
void tek__parallel_grant(void);

static inline void tek__parallel_look(void)
{
	if (__builtin_expect(atomic_load_explicit(&tek__parallel_asked, memory_order_relaxed) != 0,
			     0))
		tek__parallel_grant();
}

/* In the child of fork(), by a user-level thread: who has asked is not there. */
void tek__parallel_after_fork(void);

/* A handler that may switch, or call the program, has interrupted this: first thing there. */
void tek__quick_restart(ucontext_t *context);

#endif
