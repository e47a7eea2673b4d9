/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Signals that the C library keeps for itself: to cancel threads, to have all threads change
 * their user id, for its timers.  They are those between the kernel's first real-time signal and
 * SIGRTMIN, which the C library tells at run time, because it may keep more of them.  The
 * engine does not depend on which one is for which purpose.
 */
#ifndef TEK_UTHREAD_RESERVED_H
#define TEK_UTHREAD_RESERVED_H

#include "uthread/tick.h"

#include <stdint.h>

#define TEK_RESERVED_FIRST 32 /* the kernel's first real-time signal */

/* As a mask of the kernel's.  From anywhere. */
uint64_t tek__reserved_signals(void);

/* Those, and the tick, which mostly is one of them: no program has anything to do with them. */
static inline uint64_t tek__own_signals(void)
{
	return TEK_TICK_BIT | tek__reserved_signals();
}

/*
 * All signals but the reserved ones, and with the tick: what a kernel thread of the engine may
 * block for longer.  The C library waits for ever for one that does not take its signals
 * (setxid.h).
 */
static inline uint64_t tek__blockable_signals(void)
{
	return ~tek__reserved_signals() | TEK_TICK_BIT;
}

#endif
