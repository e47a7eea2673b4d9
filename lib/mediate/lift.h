/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Lifts: a thread that holds what a Fast thread waits for is Fast meanwhile (TEK_WHY_LIFT). Its
 * priority is one step below that of the waiter, so that the waiter runs as soon as it can.
 *
 * A lift counts against the budget of the lifted thread. A thread that has used up its budget is
 * not lifted until its time out of the region is over.
 *
 * All functions need the lock (threads/process.h).
 */
#ifndef TEK_MEDIATE_LIFT_H
#define TEK_MEDIATE_LIFT_H

#include "mediate/region.h"
#include "mediate/times.h"

/* The SCHED_TEK priority of a holder for which a member of this priority waits. */
int tek__lift_nice(const struct tek_thread *waiter);

/*
 * Lifts a thread to that priority, or moves its lift there. `waiter` is the kernel id of the thread
 * that waits for it. 0; EPERM, EDQUOT, EAGAIN or ESRCH as tek/tek.h has them: it is not lifted.
 */
int tek__lift(struct tek_thread *holder, int nice, pid_t waiter);

/* From now on no thread is lifted: TEK stands down. */
void tek__lift_stop(void);

/* Ends its lift, if it has one. */
void tek__lift_end(struct tek_thread *holder);

/* So many threads are lifted. Needs no lock: a value of a moment ago. */
static inline unsigned int tek__lifted_threads(void)
{
	return __atomic_load_n(&tek__times_lifted, __ATOMIC_SEQ_CST);
}

#endif
