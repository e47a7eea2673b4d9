/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Condition variables of the C library, for Fast threads.
 *
 * The C library locks the mutex again at the end of a wait, out of TEK's sight. So a Fast thread
 * waits in a list of TEK, and locks the mutex by itself, which lifts the holder. A signal goes to a
 * Fast thread first, the most critical one, and without one to the C library. A broadcast goes to
 * both.
 *
 * Condition variables of several processes stay the C library's.
 */
#ifndef TEK_INHERIT_COND_H
#define TEK_INHERIT_COND_H

#include "base/until.h"

#include <pthread.h>
#include <stdbool.h>

/* For the start: whether the flags of a condition variable are known. */
bool tek__cond_layout_is_known(void);

/*
 * The calling thread waits here, and not in the C library: it is Fast, and the condition variable
 * is of this process.
 */
bool tek__cond_waits_here(const pthread_cond_t *cond);

/* The clock of pthread_cond_timedwait(). */
clockid_t tek__cond_clock(const pthread_cond_t *cond);

/* As pthread_cond_clockwait(). Only where tek__cond_waits_here(). A cancellation point. */
int tek__cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, struct tek_until until);

/*
 * Wakes a Fast thread, or all of them, that wait in the list. False: no such thread was there, or
 * this is a signal handler that interrupted one of these functions.
 */
bool tek__cond_signal(const pthread_cond_t *cond);
bool tek__cond_broadcast(const pthread_cond_t *cond);

/* In the child of a fork: no thread waits. */
void tek__cond_forget(void);

#endif
