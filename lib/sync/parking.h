/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sleeping until a word changes, as by futex(2), for kernel threads and user-level threads at the
 * same time. The kernel keeps the list of sleeping kernel threads; a table here keeps the
 * user-level ones.
 */
#ifndef TEK_SYNC_PARKING_H
#define TEK_SYNC_PARKING_H

#include "base/until.h"

#include <stdatomic.h>

/*
 * Sleeps while *word is `seen`, at most until that time: 0, ETIMEDOUT, EINVAL (`until` is not a
 * valid time). May return 0 early. A thread that changes the word and then calls tek_sync__unpark()
 * misses no sleeper.
 */
int tek_sync__park(atomic_uint *word, unsigned int seen, struct tek_until until);

/* Wakes at most `most` of the word's sleepers. It does not access the word, which may be gone. */
void tek_sync__unpark(atomic_uint *word, unsigned int most);

#endif
