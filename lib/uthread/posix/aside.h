/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * System calls that wait in the kernel, for things of which no file says when they have come: messages and semaphores of
 * System V, locks of files, children, who opens the other end of a FIFO, and objects of several processes, which are the
 * C library's.  To ask again and again would lose the kernel's order of who waits, its detection of deadlocks, and what
 * is there for a moment only.
 *
 * So the calling thread gives its worker to a spare carrier first, as the monitor would take it away some milliseconds
 * later (carrier.h), and waits on its own: as with kernel threads, one of which it takes meanwhile.
 *
 * Where none can be had (a limit of processes or of mappings) it does ask again and again, so that others run: one of
 * them may have what it waits for.  Calls without a form that does not wait keep their worker then, which stands still
 * until they are done: pthread_cond_wait(), pthread_barrier_wait(), the opening of a FIFO or a device.
 */
#ifndef TEK_UTHREAD_POSIX_ASIDE_H
#define TEK_UTHREAD_POSIX_ASIDE_H

#include "sync/until.h"
#include "uthread/posix/blocked.h"

#include <errno.h>
#include <stdbool.h>

/*
 * By a user-level thread, not between tek__enter() and tek__leave(): the call comes between these two.  If there
 * is no spare carrier it keeps its worker, and the monitor sees to it.  Handlers may run in both.  errno stays.  For
 * kernel threads they do nothing.
 */
void tek__aside_begin(void);
void tek__aside_end(void);

/* The result of a call that is made so.  One that is cancelled there does not come to the end. */
#define TEK_ASIDE(call) \
	({ \
		tek__aside_begin(); \
		__typeof__(call) result_ = (call); \
		tek__aside_end(); \
		result_; \
	})

/*
 * Lets others run for a while: who has what is waited for may be one of them, and lets it go before long.  *times is
 * 0 at first; false, at once: that has been enough.
 */
bool tek__aside_is_patient(unsigned int *times);

/*
 * tek__aside_begin(), and true: the call is to be made now, which waits until then at most, and then tek__aside_end().
 * False: nobody else could be had who carries its worker, and it has paused, a while longer each time (*pauses is 0 at
 * first): it asks again whether it need wait at all.
 */
bool tek__aside_or_pause(unsigned int *pauses, struct tek_until until);

/* The same as TEK_ASIDE(), if `attempt`, which does not wait, has failed with EBUSY for a while. */
#define TEK_ASIDE_IF_BUSY(attempt, call, until) \
	({ \
		unsigned int times_ = 0, pauses_ = 0; \
		int attempted_; \
		do { \
			attempted_ = (attempt); \
		} while (attempted_ == EBUSY && (tek__aside_is_patient(&times_) || \
						 !tek__aside_or_pause(&pauses_, until))); \
		if (attempted_ == EBUSY) { \
			attempted_ = (call); \
			tek__aside_end(); \
		} \
		attempted_; \
	})

/*
 * The same at once, for a call that fails with -1: `attempt` has failed because it `would_wait`, by errno.
 * `restarts`: only handlers without SA_RESTART make it fail with EINTR.
 */
#define TEK_ASIDE_IF_IT_WOULD_WAIT(attempt, would_wait, call, until, restarts) \
	({ \
		const struct tek_handlers handlers_ = tek__handlers_from_here(restarts); \
		unsigned int pauses_ = 0; \
		__typeof__(call) result_; \
		for (;;) { \
			result_ = (attempt); \
			if (result_ >= 0 || !(would_wait)) \
				break; \
			if (pauses_ && tek__handlers_came(&handlers_)) { \
				result_ = tek__fail(EINTR); \
				break; \
			} \
			if (tek__aside_or_pause(&pauses_, until)) { \
				result_ = (call); \
				tek__aside_end(); \
				break; \
			} \
		} \
		result_; \
	})

#endif
