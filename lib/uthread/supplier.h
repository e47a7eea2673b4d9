/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The supplier: a kernel thread that makes spare carriers, so that there is one when a tick needs
 * it.
 *
 * Making a kernel thread takes locks of the C library. With KLT preemption a thread that holds one
 * of them may be stopped. So the supplier may have to wait until that thread goes on. No thread
 * waits for the supplier.
 */
#ifndef TEK_UTHREAD_SUPPLIER_H
#define TEK_UTHREAD_SUPPLIER_H

#include "uthread/worker.h"

#include <stdbool.h>
#include <sys/types.h>

/* 0 or an error number. */
int tek_ut__supplier_start(void);

/*
 * After a new generation of kernel state (bound.h): it ends. Returns its thread id, 0: it did not
 * run. After the end of that thread another one can be started: 0 or an error number.
 */
pid_t tek_ut__supplier_stop(void);
int tek_ut__supplier_start_again(void);

/* Spare carriers may be missing: it makes them. From a signal handler, too. */
void tek_ut__supplier_check(void);

/* Whether the last attempt to make a kernel thread failed. */
bool tek_ut__supplier_is_refused(void);

/* By a carrier that it has made, after it has joined the spare ones. */
void tek_ut__supplier_has_made_one(void);

/*
 * For a worker without a spare carrier, which may get one only after a thread that was stopped in
 * the C library has gone on: takes the next ready thread that belongs to a carrier; NULL: there is
 * none. `running` as in struct tek_sched.
 */
struct tek_uthread *tek_ut__next_stopped(struct tek_worker *worker,
					 const struct tek_uthread *running);

#endif
