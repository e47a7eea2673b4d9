/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A sleep of a kernel thread, of which a cancellation ends the thread.
 *
 * It is in a semaphore of the C library.  A sleep in a futex(2) of ours with PTHREAD_CANCEL_ASYNCHRONOUS around it would
 * not do: a cancellation that comes as the sleep ends may arrive when the thread has already returned from its first
 * function, and then pthread_join(3) says PTHREAD_CANCELED of a thread that was not cancelled (seen with glibc 2.36).  The C
 * library's own points of cancellation do not go on while one is on its way.
 *
 * The functions are the C library's, whoever else has some of these names: the program, libtek-uthread.so.
 */
#ifndef TEK_SYNC_CANCELLABLE_H
#define TEK_SYNC_CANCELLABLE_H

#include "sync/until.h"

#include <semaphore.h>

struct tek_cancellable {
	sem_t awake;
};

/* A thread will sleep in it. */
void tek__cancellable_init(struct tek_cancellable *sleeper);

/* Until tek__cancellable_awaken(), which may have come before: 0, ETIMEDOUT, EINVAL.  Never early.  errno stays. */
int tek__cancellable_sleep(struct tek_cancellable *sleeper, struct tek_until until);

/* Once.  From then on *sleeper may be gone.  errno stays. */
void tek__cancellable_awaken(struct tek_cancellable *sleeper);

#endif
