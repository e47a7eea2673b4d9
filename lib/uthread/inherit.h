/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Priorities that come from mutexes (PTHREAD_PRIO_INHERIT, PTHREAD_PRIO_PROTECT), among user-level
 * threads.
 *
 * The owner of an inheriting mutex is at least as urgent as each of its waiters. If that owner
 * waits for another mutex, the owner of that one is, too, and so on. The owner of a mutex with a
 * ceiling is at least as urgent as the ceiling. The changed value is the schedulers' priority
 * (priority.h).
 *
 * One lock for all of this, since it follows chains of mutexes and threads.  It is taken for
 * special mutexes only, and before the guard of a mutex, never under it.  Kernel threads take part
 * as waiters and owners, but have no priority here.
 */
#ifndef TEK_UTHREAD_INHERIT_H
#define TEK_UTHREAD_INHERIT_H

#include "uthread/mutex.h"
#include "uthread/own.h"

/*
 * The calling thread, with `own`, has locked this special mutex, or is about to unlock it: its
 * owner is set, and it is in the list of held ones.
 */
void tek_ut__inherit_got(struct tek_own *own, struct tek_mutex *mutex);
void tek_ut__inherit_lose(struct tek_own *own, struct tek_mutex *mutex);

/* The mutex, which the calling thread owns, has another ceiling. */
void tek_ut__inherit_set_ceiling(struct tek_own *own, struct tek_mutex *mutex, int ceiling);

/* It begins, or ends, its wait for the mutex. */
void tek_ut__inherit_wait(struct tek_own *own, struct tek_mutex *mutex);
void tek_ut__inherit_waited(struct tek_own *own, struct tek_mutex *mutex);

/* In the child of fork(). */
void tek_ut__inherit_after_fork(void);

/* The calling thread ends: no thread finds its `own` any more. */
void tek_ut__inherit_end(struct tek_uthread *thread);

/*
 * The priority that a thread has without its mutexes. To be set here and not by
 * tek_ut__priority_change(): an unlock would undo that. For pthread_setschedparam(3) and the like;
 * by any thread, of any thread that lives.
 */
int tek_ut__priority_of(struct tek_uthread *thread);
void tek_ut__priority_set(struct tek_uthread *thread, int priority);

#endif
