/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The trace: which thread ran where, when, and why it left. abi/tek_trace.h has the file; `tek run
 * --trace` converts it for a reader.
 *
 * Each worker maps a block of the file and writes records into it, so there is nothing to flush:
 * written records outlive the process, however that ends. Each block has one writer, so it takes no
 * lock. A second block waits for the first to be full; the monitor makes it, because that takes
 * system calls. Records that come faster than that are lost, and counted.
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
extern bool tek_ut__trace_on __attribute__((visibility("hidden")));

/*
 * Traces into the file at this path, which is made if there is none; a relative one starts at the
 * current directory. On failure a message goes to standard error: nothing is traced, and all else
 * is unchanged. Called when the number of workers is known, before a second kernel thread is in the
 * engine. From then on tek_ut__trace_supply() has to be called.
 */
void tek_ut__trace_start(const char *path);

/* No more. Written records stay. */
void tek_ut__trace_end(void);

/*
 * Makes blocks for workers that have used up theirs. By the monitor only, each time it is woken: it
 * makes system calls, and takes no lock.
 */
void tek_ut__trace_supply(void);

/* In the child of fork(), which has blocks of its own. */
void tek_ut__trace_after_fork(void);

/* The following ones between tek_ut__enter() and tek_ut__leave(), by any thread. */

void tek_ut__trace_note_switch(struct tek_worker *worker, const struct tek_uthread *from,
			       const struct tek_uthread *next);
void tek_ut__trace_note_ready(const struct tek_uthread *thread);
void tek_ut__trace_note_name(const struct tek_uthread *thread);

/* `worker` is about to go on with `next` instead of `from`; worker->left has the reason. */
static inline void tek_ut__trace_switch(struct tek_worker *worker, const struct tek_uthread *from,
					const struct tek_uthread *next)
{
	if (__builtin_expect(tek_ut__trace_on, 0))
		tek_ut__trace_note_switch(worker, from, next);
}

/* It can run. A thread that yields is recorded by its switch. */
static inline void tek_ut__trace_ready(const struct tek_uthread *thread, enum tek_ready why)
{
	if (__builtin_expect(tek_ut__trace_on, 0) &&
	    (why == TEK_READY_CREATED || why == TEK_READY_WOKEN))
		tek_ut__trace_note_ready(thread);
}

/* thread->name has been set. */
static inline void tek_ut__trace_named(const struct tek_uthread *thread)
{
	if (__builtin_expect(tek_ut__trace_on, 0))
		tek_ut__trace_note_name(thread);
}

#endif
