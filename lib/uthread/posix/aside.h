/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * System calls that block for events which no file reports: messages and semaphores of System V,
 * file locks, children, the other end of a FIFO, and objects of several processes, which are the C
 * library's. Polling would lose the kernel's order of waiters, its deadlock detection, and
 * short-lived events.
 *
 * So the calling thread first gives its worker to a spare carrier, as the monitor would some
 * milliseconds later (carrier.h). It waits on its own: it occupies a kernel thread meanwhile.
 *
 * Without a spare carrier (a limit of processes or of mappings) it does poll, so that other threads
 * run: one of them may hold the awaited object. A call without a non-blocking form keeps its worker
 * then, which stands still: pthread_cond_wait(), pthread_barrier_wait(), the opening of a FIFO or a
 * device.
 */
#ifndef TEK_UTHREAD_POSIX_ASIDE_H
#define TEK_UTHREAD_POSIX_ASIDE_H

#include "base/until.h"
#include "uthread/posix/blocked.h"

#include <errno.h>
#include <stdbool.h>

/*
 * By a user-level thread, not between tek_ut__enter() and tek_ut__leave(): the call comes between
 * these two. Without a spare carrier the thread keeps its worker, and the monitor acts. Handlers
 * may run in both. errno stays. For kernel threads they do nothing.
 */
void tek_ut__aside_begin(void);
void tek_ut__aside_end(void);

/*
 * tek_ut__aside_begin() for a call that an allocator may make: the caller makes no carrier itself,
 * because a new thread needs memory. It waits some milliseconds for the supplier at most.
 */
void tek_ut__aside_begin_in_allocator(void);

/* The result of a call made so. A thread that is cancelled in the call does not reach the end. */
#define TEK_ASIDE(call) \
	({ \
		tek_ut__aside_begin(); \
		__typeof__(call) result_ = (call); \
		tek_ut__aside_end(); \
		result_; \
	})

/*
 * Lets other threads run for a while: the holder of the awaited object may be one of them, and soon
 * release it. *times is 0 at first; false, at once: that has been enough.
 */
bool tek_ut__aside_is_patient(unsigned int *times);

/*
 * tek_ut__aside_begin(), and true: the call has to be made now, which waits until then at most, and
 * then tek_ut__aside_end(). False: no other carrier was available for its worker. The thread has
 * paused, a while longer each time (*pauses is 0 at first), and has to check again whether it need
 * wait at all.
 */
bool tek_ut__aside_or_pause(unsigned int *pauses, struct tek_until until);

/* The same as TEK_ASIDE(), if `attempt`, which does not wait, has failed with EBUSY for a while. */
#define TEK_ASIDE_IF_BUSY(attempt, call, until) \
	({ \
		unsigned int times_ = 0, pauses_ = 0; \
		int attempted_; \
		do { \
			attempted_ = (attempt); \
		} while (attempted_ == EBUSY && (tek_ut__aside_is_patient(&times_) || \
						 !tek_ut__aside_or_pause(&pauses_, until))); \
		if (attempted_ == EBUSY) { \
			attempted_ = (call); \
			tek_ut__aside_end(); \
		} \
		attempted_; \
	})

/*
 * The same at once, for a call that fails with -1: `attempt` has failed because it `would_wait`, by
 * errno. `restarts`: only handlers without SA_RESTART make it fail with EINTR.
 */
#define TEK_ASIDE_IF_IT_WOULD_WAIT(attempt, would_wait, call, until, restarts) \
	({ \
		const struct tek_handlers handlers_ = tek_ut__handlers_from_here(restarts); \
		unsigned int pauses_ = 0; \
		__typeof__(call) result_; \
		for (;;) { \
			result_ = (attempt); \
			if (result_ >= 0 || !(would_wait)) \
				break; \
			if (pauses_ && tek_ut__handlers_came(&handlers_)) { \
				result_ = tek_ut__fail(EINTR); \
				break; \
			} \
			if (tek_ut__aside_or_pause(&pauses_, until)) { \
				result_ = (call); \
				tek_ut__aside_end(); \
				break; \
			} \
		} \
		result_; \
	})

#endif
