/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sleeping until a word changes, as by futex(2), for kernel threads and user-level threads at the same time: for the
 * former the kernel keeps the list of who sleeps where, for the latter a table here.
 */
#ifndef TEK_SYNC_PARKING_H
#define TEK_SYNC_PARKING_H

#include "sync/until.h"

#include <stdatomic.h>

/*
 * Sleeps while *word is `seen`, until then at most: 0, ETIMEDOUT, EINVAL (`until` is no time).  May return 0 early.
 * Who changes the word and then calls tek__unpark() misses nobody.
 */
int tek__park(atomic_uint *word, unsigned int seen, struct tek_until until);

/* Wakes `most` at most of those who sleep there.  The word is not touched: it may be gone. */
void tek__unpark(atomic_uint *word, unsigned int most);

#endif
