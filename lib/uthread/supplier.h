/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The supplier: a kernel thread that makes spare carriers, so that there is one when a tick needs it.
 *
 * Making a kernel thread takes locks of the C library.  With kernel threads for preemption somebody may have been stopped
 * who holds one of them, so the supplier may have to wait until that one goes on; nobody waits for the supplier.
 */
#ifndef TEK_UTHREAD_SUPPLIER_H
#define TEK_UTHREAD_SUPPLIER_H

#include "uthread/worker.h"

#include <stdbool.h>
#include <sys/types.h>

/* 0 or an error number. */
int tek__supplier_start(void);

/*
 * After a new generation of kernel state (bound.h): it ends.  Returns its thread id, 0: it did not run.  Once that is
 * gone another one can be started: 0 or an error number.
 */
pid_t tek__supplier_stop(void);
int tek__supplier_start_again(void);

/* Spare carriers may be missing: it makes them. From a signal handler, too. */
void tek__supplier_look(void);

/* Whether the last kernel thread that it tried to make could not be had. */
bool tek__supplier_is_refused(void);

/* By a carrier that it has made, and that is among the spare ones. */
void tek__supplier_has_made_one(void);

/*
 * For who has no spare carrier, and may get one only after somebody who was stopped in the middle of the C library has
 * gone on: takes the next ready thread that belongs to a carrier; NULL: there is none.  `running` as in struct
 * tek_sched.
 */
struct tek_uthread *tek__next_stopped(struct tek_worker *worker, const struct tek_uthread *running);

#endif
