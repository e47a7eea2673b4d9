/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Chooses the size of a new thread's stack, from what TEK knows of the thread's kind (stack/fit.h)
 * and from the size that the program wants.
 *
 * The creator calls tek__size_choose() before the C library creates the thread
 * (tek__stack_choose()). It never fails: without a choice the thread gets the program's attributes.
 */
#ifndef TEK_STACK_SIZE_H
#define TEK_STACK_SIZE_H

#include "stack/kind.h"
#include "threads/stack_use.h"

struct tek_thread;

#include <pthread.h>

/* At the start of the process: queries the default attributes. */
void tek__size_start(void);

/* The program has changed the attributes of threads that have none. Needs no lock. */
void tek__size_default_changed(void);

/*
 * The attributes to create a thread with: `attr`, or *own if it gets another size.  Notes in
 * thread->stack what was decided: bytes, flags, reserve_bytes, room_bytes.
 */
const pthread_attr_t *tek__size_choose(struct tek_thread *thread, const pthread_attr_t *attr,
				       pthread_attr_t *own);

#endif
