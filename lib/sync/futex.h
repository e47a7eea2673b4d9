/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* futex(2), private to one process. errno is preserved. */
#ifndef TEK_SYNC_FUTEX_H
#define TEK_SYNC_FUTEX_H

#include "base/until.h"

#include <stdatomic.h>

/*
 * Sleeps while *word is `seen`, at most until that time: 0, ETIMEDOUT, EINVAL (`until` is not a
 * valid time). May return 0 early. CLOCK_REALTIME is the kernel's, so setting that clock takes
 * effect.
 */
int tek_sync__futex_wait_until(atomic_uint *word, unsigned int seen, struct tek_until until);

/* Wakes at most `most` sleepers of this address; it neither reads nor writes *word. */
void tek_sync__futex_wake(atomic_uint *word, int most);

/*
 * FUTEX_LOCK_PI: the word is the holder's kernel id, 0 if free. The caller has tried that first. 0,
 * ETIMEDOUT, EINVAL, EDEADLK (the caller holds it), ESRCH (its holder has ended), ENOMEM; ENOSYS:
 * the kernel does not support it for that clock.
 */
int tek_sync__futex_lock_pi(atomic_uint *word, struct tek_until until);
/* Called by the holder if there are waiters. */
void tek_sync__futex_unlock_pi(atomic_uint *word);

#endif
