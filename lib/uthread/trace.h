/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The trace: which thread ran where, when, and why it left.  abi/tek_trace.h has the file; `tek run --trace` makes
 * of it what people look at.
 *
 * Each worker has a block of the file mapped and writes records into it, so there is nothing to flush: what was
 * written outlives the process, however that ends.  Nobody else writes there, so it takes no lock.  A second
 * block waits for the first to be full; the monitor makes it, because that takes system calls.  What comes faster
 * than that is lost, and counted.
 *
 * While nothing is traced each function is one load of a global.
 */
#ifndef TEK_UTHREAD_TRACE_H
#define TEK_UTHREAD_TRACE_H

#include "uthread/sched.h"
#include "uthread/thread.h"
#include "uthread/worker.h"

#include <stdbool.h>

/* Whether anything is traced. */
extern bool tek__trace_on __attribute__((visibility("hidden")));

/*
 * Traces into the file at this path, which is made if there is none; a relative one means the directory of now.
 * Where that is not possible standard error says so: nothing is traced, and all else is as it is.  When it is
 * known how many workers there are, before a second kernel thread is in the engine; tek__trace_supply() has to be
 * called from then on.
 */
void tek__trace_start(const char *path);

/* No more. What was written stays. */
void tek__trace_end(void);

/*
 * Makes blocks for those who have used up theirs.  By the monitor, each time it is woken, and by nobody else: it
 * makes system calls, and takes no lock.
 */
void tek__trace_supply(void);

/* In the child of fork(), which has blocks of its own. */
void tek__trace_after_fork(void);

/* The following ones between tek__enter() and tek__leave(), by anybody. */

void tek__trace_note_switch(struct tek_worker *worker, const struct tek_uthread *from,
			    const struct tek_uthread *next);
void tek__trace_note_ready(const struct tek_uthread *thread);
void tek__trace_note_name(const struct tek_uthread *thread);

/* `worker` is about to go on with `next` instead of `from`; worker->left says why. */
static inline void tek__trace_switch(struct tek_worker *worker, const struct tek_uthread *from,
				     const struct tek_uthread *next)
{
	if (__builtin_expect(tek__trace_on, 0))
		tek__trace_note_switch(worker, from, next);
}

/* It can run. One that only lets others run is known to by its switch. */
static inline void tek__trace_ready(const struct tek_uthread *thread, enum tek_ready why)
{
	if (__builtin_expect(tek__trace_on, 0) &&
	    (why == TEK_READY_CREATED || why == TEK_READY_WOKEN))
		tek__trace_note_ready(thread);
}

/* thread->name has been set. */
static inline void tek__trace_named(const struct tek_uthread *thread)
{
	if (__builtin_expect(tek__trace_on, 0))
		tek__trace_note_name(thread);
}

#endif
