/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Priorities that come from mutexes (PTHREAD_PRIO_INHERIT, PTHREAD_PRIO_PROTECT), among user-level threads.
 *
 * The owner of an inheriting mutex is at least as urgent as everybody who waits for it, and so is who holds the
 * mutex that the owner waits for in turn; the owner of one with a ceiling at least as urgent as that says.
 * What is changed is the priority that schedulers know (priority.h).
 *
 * One lock for all of this, since it follows chains of mutexes and threads.  It is taken for special mutexes
 * only, and before the guard of a mutex, never under it.  Kernel threads take part as waiters and owners, but have
 * no priority here.
 */
#ifndef TEK_UTHREAD_INHERIT_H
#define TEK_UTHREAD_INHERIT_H

#include "uthread/mutex.h"
#include "uthread/own.h"

/*
 * The calling thread, whose `own` this is, has got this special mutex, or is about to let it go: its owner is set,
 * and it is in the list of those that are held.
 */
void tek__inherit_got(struct tek_own *own, struct tek_mutex *mutex);
void tek__inherit_lose(struct tek_own *own, struct tek_mutex *mutex);

/* The mutex, which the calling thread has, has another ceiling. */
void tek__inherit_set_ceiling(struct tek_own *own, struct tek_mutex *mutex, int ceiling);

/* It begins to wait for it, or ends that. */
void tek__inherit_wait(struct tek_own *own, struct tek_mutex *mutex);
void tek__inherit_waited(struct tek_own *own, struct tek_mutex *mutex);

/* In the child of fork(). */
void tek__inherit_after_fork(void);

/* The calling thread ends: nobody finds its `own` any more. */
void tek__inherit_end(struct tek_uthread *thread);

/*
 * The priority that a thread has without its mutexes.  To be set here and not by tek__priority_change(): that would be
 * undone when it unlocks one.  For pthread_setschedparam(3) and the like; by any thread, of any thread that lives.
 */
int tek__priority_of(struct tek_uthread *thread);
void tek__priority_set(struct tek_uthread *thread, int priority);

#endif
