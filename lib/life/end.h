/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The end of a thread: the destructor of a pthread key, in the last round of
 * destructors, so after those of C++ thread_local objects and of other keys.  Return,
 * pthread_exit() and cancellation pass here; the system call exit does not.  A destructor
 * that runs in the very last of the possible rounds (PTHREAD_DESTRUCTOR_ITERATIONS) comes
 * after it: the C library calls them in the order in which keys were made.
 */
#ifndef TEK_LIFE_END_H
#define TEK_LIFE_END_H

#include <stdbool.h>

struct tek_thread;

/* At start. False if the ends of threads cannot be noticed: then TEK cannot work here. */
bool tek__end_start(void);

/* The calling thread's end will be noticed. */
void tek__end_watch(struct tek_thread *thread);

/* In the child of a fork. */
void tek__end_forget(void);

#endif
