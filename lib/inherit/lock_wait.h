/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The wait for a lock of any kind. A Fast thread lifts the holders meanwhile; an ordinary thread
 * records the object that it waits for.
 */
#ifndef TEK_INHERIT_LOCK_WAIT_H
#define TEK_INHERIT_LOCK_WAIT_H

#include "base/until.h"
#include "threads/thread.h"

/* The C library's functions of a lock, with its address and errors of pthread.h. */
struct tek_lock_calls {
	int (*lock)(void *lock);
	int (*try)(void *lock);
	int (*lock_until)(void *lock, clockid_t clock, const struct timespec *at);
};

/* Waits as the C library does. */
int tek__lock_plainly(const struct tek_lock_calls *calls, void *lock, struct tek_until until);

/*
 * Waits for a lock that another thread holds. `object` names it (waits.h), and `call` is the
 * address to which the caller's caller returns. 0, or the error of the C library.
 */
int tek__lock_wait(const struct tek_lock_calls *calls, void *lock, uintptr_t object,
		   struct tek_until until, uintptr_t call);

#endif
