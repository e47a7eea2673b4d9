/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The priority of a thread that is visible to other threads. */
#ifndef TEK_UTHREAD_PRIORITY_H
#define TEK_UTHREAD_PRIORITY_H

#include "uthread/thread.h"

/*
 * From now on it has this priority (struct tek_sched_state), be it ready, running or waiting. A
 * scheduler with priorities puts it into another queue, and a worker switches to a thread that now
 * goes before its running one. By any thread, between tek_ut__enter() and tek_ut__leave(), with
 * locks held or not.
 */
void tek_ut__priority_change(struct tek_uthread *thread, signed char priority);

#endif
