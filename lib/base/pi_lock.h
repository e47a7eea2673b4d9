/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The one lock of TEK in a process: a futex with priority inheritance, so that a
 * Fast thread that waits for it lends its priority to the holder.
 *
 * Not a pthread_mutex_t, because programs and tools replace those: sanitizers,
 * lock profilers, and libraries with locks of their own would run inside TEK, at
 * moments (before a thread is set up, after its last destructor) for which they
 * are not made.
 */
#ifndef TEK_BASE_PI_LOCK_H
#define TEK_BASE_PI_LOCK_H

#include <stdbool.h>

struct tek_pi_lock {
	unsigned int word; /* 0, or the holder's tid, with FUTEX_WAITERS; futex(2), PI futexes */
};

/* Once, without waiting: false if a thread holds it. */
bool tek__pi_lock_try(struct tek_pi_lock *lock);

/* False if the calling thread holds it already. */
bool tek__pi_lock_take(struct tek_pi_lock *lock);

/* Whether the calling thread holds it; in the child of a fork: whether it did before. */
bool tek__pi_lock_is_held(const struct tek_pi_lock *lock);

void tek__pi_lock_release(struct tek_pi_lock *lock);

#endif
