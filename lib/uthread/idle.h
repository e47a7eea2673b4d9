/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Workers with nothing to do. One of them waits for files and times (events.h); the rest sleep
 * until they are woken, because a thread is ready.
 */
#ifndef TEK_UTHREAD_IDLE_H
#define TEK_UTHREAD_IDLE_H

#include "uthread/worker.h"

enum { TEK_IDLE_NO, TEK_IDLE_SLEEPS, TEK_IDLE_POLLS };

/* The number of idle workers. */
extern atomic_uint tek_ut__idle_workers __attribute__((visibility("hidden")));

/* By a carrier in its own context: runs threads until the worker has been given away. */
void tek_ut__idle(struct tek_carrier *carrier, struct tek_worker *worker);

/* A thread is ready: wakes this worker, or any if NULL, if it is idle. */
void tek_ut__idle_wake(struct tek_worker *worker);

/* A thread waits until that time of CLOCK_MONOTONIC, in ns, which is the earliest of all. */
void tek_ut__idle_timer_changed(uint64_t deadline);

/* In the child of fork(): no worker is idle. */
void tek_ut__idle_after_fork(void);

#endif
