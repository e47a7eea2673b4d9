/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The monitor: a kernel thread that sleeps until a thread reports that something may be wrong.
 *
 * It gives workers with blocked carriers to spare carriers, detects loaded libraries (sections.h),
 * and reminds threads that run without a worker to wait for one.
 *
 * It never waits for a lock of the C library or the loader: the holder may be stopped, and wait for
 * the monitor. Work that may wait for such a lock is the supplier's (supplier.h).
 */
#ifndef TEK_UTHREAD_MONITOR_H
#define TEK_UTHREAD_MONITOR_H

#include <stdbool.h>
#include <sys/types.h>

/* 0 or an error number. */
int tek_ut__monitor_start(void);

/* Not with one worker that no other kernel thread can enter. */
bool tek_ut__monitor_runs(void);

/*
 * After a new generation of kernel state (bound.h): it ends. Returns its thread id, 0: it did not
 * run. After the end of that thread, and of the supplier, both can be started again: 0 or an error
 * number.
 */
pid_t tek_ut__monitor_stop(void);
int tek_ut__monitor_start_again(void);

struct tek_worker;

/* This worker has no carrier: it gets a spare one as soon as there is one. */
void tek_ut__monitor_find_carrier(struct tek_worker *worker);

/* It has to poll. From a signal handler, too. */
void tek_ut__monitor_wake(void);

#endif
