/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* futex(2), of one process. errno stays. */
#ifndef TEK_SYNC_FUTEX_H
#define TEK_SYNC_FUTEX_H

#include "sync/until.h"

#include <stdatomic.h>

/*
 * Sleeps while *word is `seen`, until then at most: 0, ETIMEDOUT, EINVAL (`until` is no time).  May return 0 early.
 * CLOCK_REALTIME is the kernel's, so somebody may set it meanwhile.
 */
int tek__futex_wait_until(atomic_uint *word, unsigned int seen, struct tek_until until);

/* Wakes `most` at most of those who sleep at this address; nothing is read or written there. */
void tek__futex_wake(atomic_uint *word, int most);

/*
 * FUTEX_LOCK_PI: the word is the holder's kernel id, 0 where it is free.  Called when that was tried.  0, ETIMEDOUT, EINVAL,
 * EDEADLK (this thread has it), ESRCH (its holder has ended), ENOMEM; ENOSYS where the kernel has none for that clock.
 */
int tek__futex_lock_pi(atomic_uint *word, struct tek_until until);
/* By its holder, when others wait. */
void tek__futex_unlock_pi(atomic_uint *word);

#endif
