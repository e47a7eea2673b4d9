/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel state of user-level threads: credentials, namespaces, nice values and all else that the
 * kernel has for each kernel thread, and that a program changes for one of its threads.
 *
 * A carrier runs many threads, and a thread runs on many carriers.  So before a thread changes such
 * state one of two things is done:
 *
 *   - The thread is bound: a carrier is dedicated to it. The carrier runs no other thread, the
 *     thread runs on no other carrier, and both end together. The current carrier of the thread is
 *     dedicated, so the kernel's thread id stays. The process's first kernel thread cannot end, so
 *     only the first thread of the process is bound to it: any other thread that runs there moves
 *     to a spare carrier.
 *   - The thread is the only one of the process.  All later threads are to inherit from it, so the
 *     state is the process's: carriers with the earlier state run no thread any more, and a new
 *     supplier makes new ones. tek_ut__carrier_generation counts these changes.
 *
 * A bound thread needs a worker to run, as other threads do. When it waits, its carrier lets a
 * spare one carry the worker on. If it has changed inheritable state (struct tek_uthread.changed),
 * a thread that it creates is bound to a kernel thread that is cloned from its carrier.
 *
 * The child of fork() has one kernel thread, from which all later ones inherit: nothing is bound
 * there.
 */
#ifndef TEK_UTHREAD_BOUND_H
#define TEK_UTHREAD_BOUND_H

#include "uthread/carrier.h"

#include <stdbool.h>

/*
 * The calling user-level thread is bound from now on; its kernel thread may be another one. 0, or
 * EAGAIN: no further kernel thread is available. Not between tek_ut__enter() and tek_ut__leave().
 */
int tek_ut__bound_begin(void);

/*
 * `thread`, which was not launched yet, will run on `carrier`, of
 * tek_ut__carrier_start_dedicated(). Between tek_ut__enter() and tek_ut__leave().
 */
void tek_ut__bound_create(struct tek_uthread *thread, struct tek_carrier *carrier);

/*
 * The calling user-level thread, the only one of the process, changes the state of the process
 * between these two. False: another thread may still be about to end on its carrier, so this is
 * impossible now. The second one replaces the engine's kernel threads, which takes some 0.2 ms, and
 * may be called later, but before a thread is created: 0 or an error number. Not between
 * tek_ut__enter() and tek_ut__leave().
 */
bool tek_ut__generation_begin(void);
int tek_ut__generation_end(void);

/*
 * Whether the caller is the kernel thread that the engine takes it for: the child of vfork() is
 * not.
 */
bool tek_ut__bound_is_own_carrier(void);

#endif
