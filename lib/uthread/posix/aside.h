/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * System calls that wait in the kernel, for things of which no file says when they have come: messages and semaphores of
 * System V, locks of files, who opens the other end of a FIFO.  To ask again and again would lose the kernel's order of who
 * waits, its detection of deadlocks, and what is there for a moment only.
 *
 * So the calling thread gives its worker to a spare carrier first, as the monitor would take it away some milliseconds
 * later (carrier.h), and waits on its own: as with kernel threads, one of which it takes meanwhile.
 */
#ifndef TEK_UTHREAD_POSIX_ASIDE_H
#define TEK_UTHREAD_POSIX_ASIDE_H

/*
 * By a user-level thread, not between tek__enter() and tek__leave(): the call comes between these two.  If there
 * is no spare carrier it keeps its worker, and the monitor sees to it.  Handlers may run in both.  errno stays.
 */
void tek__aside_begin(void);
void tek__aside_end(void);

#endif
