/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Carriers that carry no worker: spare ones, with kernel threads that wait for a worker
 * (carrier.h), and structures left by ended kernel threads. A few spare ones are kept.
 */
#ifndef TEK_UTHREAD_SPARES_H
#define TEK_UTHREAD_SPARES_H

#include "uthread/carrier.h"

/* A spare one; NULL: there is none now, the monitor makes one. Never allocates. */
struct tek_carrier *tek_ut__carrier_spare(void);

/* The same, but waits in the kernel for one, so long at most. NULL: none became spare. */
struct tek_carrier *tek_ut__carrier_spare_soon(uint64_t ns);

/*
 * It is a spare one from now on; false: it runs no threads any more (bound.h), and its kernel
 * thread can end.
 */
bool tek_ut__carrier_put_back(struct tek_carrier *spare);

/* Dismisses all of them. */
void tek_ut__spares_dismiss(void);

/* The same, if it is needed; false also if there are enough. */
bool tek_ut__carrier_keep(struct tek_carrier *carrier);

/* The number of spare ones. */
unsigned int tek_ut__carrier_spares(void);

/*
 * A structure: new, or one that was dropped, and is still in the list of all; NULL: there is no
 * memory.
 */
struct tek_carrier *tek_ut__carrier_new(void);

/* It has no kernel thread. Other threads may still read it. */
void tek_ut__carrier_drop(struct tek_carrier *carrier);

/* In the child of fork(): there are none. */
void tek_ut__spares_after_fork(void);

#endif
