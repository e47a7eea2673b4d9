/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * System calls that wait in the kernel, for things of which no file says when they have come: messages and semaphores of
 * System V, locks of files, who opens the other end of a FIFO, and objects of several processes, which are the C library's.  To ask again and again would lose the kernel's order of who
 * waits, its detection of deadlocks, and what is there for a moment only.
 *
 * So the calling thread gives its worker to a spare carrier first, as the monitor would take it away some milliseconds
 * later (carrier.h), and waits on its own: as with kernel threads, one of which it takes meanwhile.
 */
#ifndef TEK_UTHREAD_POSIX_ASIDE_H
#define TEK_UTHREAD_POSIX_ASIDE_H

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
 * 0 at first; false: that has been enough.
 */
bool tek__aside_is_patient(unsigned int *times);

/* The same as TEK_ASIDE(), if `attempt`, which does not wait, has failed with EBUSY for a while. */
#define TEK_ASIDE_IF_BUSY(attempt, call) \
	({ \
		unsigned int times_ = 0; \
		int attempted_; \
		do { \
			attempted_ = (attempt); \
		} while (attempted_ == EBUSY && tek__aside_is_patient(&times_)); \
		attempted_ == EBUSY ? TEK_ASIDE(call) : attempted_; \
	})

#endif
