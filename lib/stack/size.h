/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which size a stack gets. */
#ifndef TEK_STACK_SIZE_H
#define TEK_STACK_SIZE_H

#include "stack/kind.h"
#include "stack/use.h"

#include <pthread.h>

void tek__size_start(void);

/* The program has changed the attributes of threads that have none. Needs no lock. */
void tek__size_default_changed(void);

/*
 * The size for a stack of which so much is known, in bytes, TLS included; 0: the program's own.
 * A kind that overflowed gets the program's own if that is larger, and no more than four times
 * that: tek__size_choose() does it.
 */
size_t tek__size_for(const struct tek_known *known);

/*
 * The attributes to create a thread with: `attr`, or *own if it gets another size.  Notes in
 * *stack what was decided: bytes, flags, reserve_bytes.
 */
const pthread_attr_t *tek__size_choose(struct tek_stack *stack, const pthread_attr_t *attr,
				       pthread_attr_t *own);

#endif
