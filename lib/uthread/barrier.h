/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Barriers. The last thread to arrive releases the waiters; the barrier is ready for the next round
 * then.
 *
 * Lock: the highest bit of `arrived` (guard.h). The last thread to arrive releases it before it
 * wakes the waiters. A waiter does not access the barrier again, so the first one to return may
 * destroy and free it.
 */
#ifndef TEK_UTHREAD_BARRIER_H
#define TEK_UTHREAD_BARRIER_H

#include "uthread/wait.h"

#include <stdatomic.h>
#include <stdbool.h>

#define TEK_BARRIER_GUARD 0x80000000u
#define TEK_BARRIER_MAX 0x7fffffffu

/*
 * The C library's pthread_barrier_t has "shared by processes" in `shared`:
 * preload/uthread/barrier.c.
 */
struct tek_barrier {
	unsigned int count;  /* threads in a round: 1 to TEK_BARRIER_MAX */
	atomic_uint arrived; /* in this round, and the guard */
#if __SIZEOF_POINTER__ == 8
	unsigned int reserved;
	unsigned int shared;
	struct tek_waiter *first, *last;
#else
	struct tek_waiter *first;
	unsigned int shared;
	struct tek_waiter *last;
#endif
};

/*
 * The caller arrives, and waits: 0; -1: it was the last one; EINTR (interruptible): it has arrived,
 * but was interrupted, and calls tek_ut__barrier_go_on() until that returns 0; EINVAL: that is no
 * barrier. Not between tek_ut__enter() and tek_ut__leave().
 */
int tek_ut__barrier_wait(struct tek_barrier *barrier, struct tek_waiter *waiter,
			 bool interruptible);
int tek_ut__barrier_go_on(struct tek_waiter *waiter);

/* Whether any thread waits. */
bool tek_ut__barrier_is_used(struct tek_barrier *barrier);

#endif
