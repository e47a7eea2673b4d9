/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The process that TEK lives in: its ids, and the one lock. When it begins is in life/start.h, what
 * a fork does in life/fork.h.
 *
 * Everything that TEK knows about the threads of the process is guarded by one
 * lock with priority inheritance (base/pi_lock.h).  It is held for some hundred
 * nanoseconds and a few system calls; the table's file is made under it, once, and warnings are
 * written after it.  Helpers (helper.h) are made without it.  Where tekd makes the switches it is
 * held until tekd has answered (mediate/connection.h).
 */
#ifndef TEK_THREADS_PROCESS_H
#define TEK_THREADS_PROCESS_H

#include "base/self.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Take the lock.  False if the calling thread holds it already, which means that
 * a signal handler interrupted TEK, or if TEK stands down in this program: the
 * caller then does without TEK.  While the lock is held the thread cannot be
 * cancelled.
 */
bool tek__lock(void);

/* Release the lock, then write the events that were noted under it. errno is as at tek__lock(). */
void tek__unlock(void);

/*
 * The holder, of either kind of lock, gives the lock up for a call that may take locks of the
 * program, and takes it again. Meanwhile each other thread may end, and TEK may stand down:
 * compare a thread's generation before and after. The caller blocks all signals between the two.
 */
struct tek_held {
	int error, cancellation;
};
void tek__lock_suspend(struct tek_held *held);
void tek__lock_resume(const struct tek_held *held);

/*
 * A cheaper lock, for what passes no cancellation point and where errno does not matter.
 * It is taken without waiting or not at all; then tek__lock() is the way.  The caller must
 * not be a thread that can be cancelled at any moment (PTHREAD_CANCEL_ASYNCHRONOUS): it
 * would take the lock to its grave.
 */
bool tek__lock_brief(void);
void tek__unlock_brief(void);

/* For threads that begin or end: the brief lock if it can be had at once, else the full one. */
enum tek_locked { TEK_NOT_LOCKED, TEK_LOCKED_BRIEFLY, TEK_LOCKED };
enum tek_locked tek__lock_either(void);
void tek__unlock_either(enum tek_locked locked);

/*
 * Whether TEK does nothing in this program any more, because of a seccomp filter (life/confine.h):
 * for what is done without the lock.
 */
bool tek__is_confined(void);

/* For life/: at the start. Sets ids and the size of a page. */
void tek__process_begin(void);

/*
 * In the child of a fork: frees the lock and sets the ids. The second function is called when the
 * parent's records are forgotten: the process is known from then on.
 */
void tek__process_begin_again(void);
void tek__process_has_begun_again(void);

/* Whether this is a child that has not begun again yet. */
bool tek__process_is_new(void);

/* Whether the calling thread holds the lock: a signal handler interrupted TEK. */
bool tek__process_is_interrupted(void);

/* TEK does nothing in this program; the same because of a seccomp filter. */
void tek__process_stand_down(void);
bool tek__process_stands_down(void);
void tek__process_confine(void);

/* The process id, cached. */
pid_t tek__pid(void);

/* tek__self_epoch() of the process that TEK knows. */
extern unsigned int tek__process_epoch;

/*
 * Without the lock: this is the process that TEK knows, not the child of a fork that it
 * has not noticed yet, and the calling thread's variables are its own.
 */
static inline bool tek__process_is_known(void)
{
	unsigned int epoch = __atomic_load_n(tek_epoch_, __ATOMIC_RELAXED);
	return epoch != 0 && epoch == tek__process_epoch && tek_self_id_.epoch == epoch;
}

#endif
