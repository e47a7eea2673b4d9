/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Semaphores of one process. Zero is one of value 0.
 *
 * The word is the value. With its highest bit set the value is 0 and a thread waits; only then the
 * lowest bit is the guard (guard.h). A post with waiters gives its unit to the first of them and
 * never adds it to the value. So the most urgent, then longest waiter comes first, and no wake-up
 * is in vain.
 *
 * No thread touches the semaphore after the store that posts it, not even the waiter that is given
 * its unit: that waiter or the posting thread may destroy and free it.
 */
#ifndef TEK_UTHREAD_SEMAPHORE_H
#define TEK_UTHREAD_SEMAPHORE_H

#include "base/until.h"
#include "uthread/wait.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

#define TEK_SEM_VALUE_MAX INT_MAX

/* It lies in the C library's sem_t: preload/uthread/sem.c. */
struct tek_semaphore {
	atomic_uint word;
	unsigned int reserved;
#if __SIZEOF_POINTER__ == 8
	unsigned int reserved2[2];
#endif
	struct tek_waiters waiters;
};

/* 0 or EAGAIN. From anywhere. */
int tek_ut__semaphore_try(struct tek_semaphore *semaphore);

/*
 * 0, ETIMEDOUT, EINTR (interruptible), EINVAL: `until` is no time. Not between tek_ut__enter() and
 * tek_ut__leave().
 */
int tek_ut__semaphore_wait(struct tek_semaphore *semaphore, struct tek_until until,
			   bool interruptible);

/*
 * 0 or EOVERFLOW. From anywhere, also from the program's signal handlers, which do not run between
 * tek_ut__enter() and tek_ut__leave().
 */
int tek_ut__semaphore_post(struct tek_semaphore *semaphore);

/* 0 if any thread waits. */
int tek_ut__semaphore_value(struct tek_semaphore *semaphore);
bool tek_ut__semaphore_is_used(struct tek_semaphore *semaphore);

#endif
