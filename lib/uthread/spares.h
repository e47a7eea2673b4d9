/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Carriers that have nothing to carry: spare ones, whose kernel threads wait for a worker (carrier.h), and structures
 * of those whose kernel threads have ended.  A few spare ones are kept.
 */
#ifndef TEK_UTHREAD_SPARES_H
#define TEK_UTHREAD_SPARES_H

#include "uthread/carrier.h"

/* A spare one; NULL: there is none now, the monitor makes one. Never allocates. */
struct tek_carrier *tek__carrier_spare(void);

/* The same, which waits for one in the kernel, so long at most. NULL: none has come. */
struct tek_carrier *tek__carrier_spare_soon(uint64_t ns);

/* It is a spare one from now on; false: it runs no threads any more (bound.h), and its kernel thread can end. */
bool tek__carrier_put_back(struct tek_carrier *spare);

/* There are none any more. */
void tek__spares_dismiss(void);

/* The same, if it is wanted; false also if there are enough. */
bool tek__carrier_keep(struct tek_carrier *carrier);

/* So many spare ones there are now. */
unsigned int tek__carrier_spares(void);

/* A structure: new, or one that was dropped, and is still in the list of all; NULL: there is no memory. */
struct tek_carrier *tek__carrier_new(void);

/* It has no kernel thread. Others may look at it all the same. */
void tek__carrier_drop(struct tek_carrier *carrier);

/* In the child of fork(): there are none. */
void tek__spares_after_fork(void);

#endif
