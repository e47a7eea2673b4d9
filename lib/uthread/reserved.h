/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Signals that the C library reserves: to cancel threads, to change the user id of all threads, for
 * its timers.  They are those from the kernel's first real-time signal up to, but not including,
 * SIGRTMIN, a value that the C library returns at run time.  The engine does not depend on the
 * purpose of each.
 */
#ifndef TEK_UTHREAD_RESERVED_H
#define TEK_UTHREAD_RESERVED_H

#include "uthread/tick.h"

#include <stdint.h>

#define TEK_RESERVED_FIRST 32 /* the kernel's first real-time signal */

/* A mask of the kernel's.  Callable from anywhere. */
uint64_t tek_ut__reserved_signals(void);

/* These and the tick, which is one of them except under ThreadSanitizer.  No program uses them. */
static inline uint64_t tek_ut__own_signals(void)
{
	return TEK_TICK_BIT | tek_ut__reserved_signals();
}

/*
 * All signals but the reserved ones, and with the tick: a kernel thread of the engine may block
 * these for longer. The C library waits for ever for a kernel thread that does not take its signals
 * (setxid.h).
 */
static inline uint64_t tek_ut__blockable_signals(void)
{
	return ~tek_ut__reserved_signals() | TEK_TICK_BIT;
}

#endif
