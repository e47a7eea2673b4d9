/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Keys: a pointer of each thread's own for each of up to 1,024 keys, with a destructor.
 *
 * Deleting a key drops its values without a search: its generation changes. An even generation is
 * that of a key that does not exist.
 */
#ifndef TEK_UTHREAD_KEY_H
#define TEK_UTHREAD_KEY_H

#define TEK_KEY_ROUNDS 4 /* PTHREAD_DESTRUCTOR_ITERATIONS of glibc */

/* 0 or EAGAIN: there are 1,024 already. */
int tek_ut__key_create(unsigned int *key, void (*destructor)(void *));

/* 0 or EINVAL. No destructors are called. */
int tek_ut__key_delete(unsigned int key);

/* NULL if the calling thread has set none, or if there is no such key. */
void *tek_ut__key_get(unsigned int key);

/* 0, EINVAL: there is no such key, or ENOMEM. Not deferred. */
int tek_ut__key_set(unsigned int key, void *data);

/*
 * The calling thread ends: destructors are called for values that are not NULL, in up to 4 rounds,
 * since they may set values again. Then robust mutexes that it holds become free for other threads.
 * By every thread that ends, when the program's other code (clean-up handlers, thread_local
 * objects) has run; not deferred.
 */
void tek_ut__keys_end(void);

#endif
