/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The program's own pthread keys: whether a thread at its end still has values for which
 * destructors are to run.  Then its end is not here yet (life/end.h).
 *
 * The functions need no lock.
 */
#ifndef TEK_LIFE_KEYS_H
#define TEK_LIFE_KEYS_H

#include <pthread.h>
#include <stdbool.h>

/* At start. */
void tek__keys_start(void);

/* A key with a destructor was created. */
void tek__keys_note(pthread_key_t key);

/*
 * Whether the calling thread has a value of any such key; true if that cannot be known
 * because keys may have been created past us (libtek was loaded late).
 */
bool tek__keys_have_values(void);

#endif
