/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The data that threads left on their stacks. The C library gives the stack of a thread that has
 * ended to another, at the same pthread_t, with much of what it held. A thread that was measured at
 * its end paints that over and leaves a note of it here, so that the next one need neither ask the
 * kernel nor paint much.
 *
 * A small table: a note that finds its place taken replaces the other one. In the child of a fork
 * the notes stay valid. All functions need the lock.
 */
#ifndef TEK_STACK_BLOCK_H
#define TEK_STACK_BLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct tek_block {
	uintptr_t painted_from; /* below it pages were not present, and are still unused */
	uintptr_t painted_to;   /* up to here each word holds the paint */
};

void tek__block_leave(pthread_t handle, const struct tek_block *block);

/* The note about the calling thread's stack, if there is one, which is removed. */
bool tek__block_take(pthread_t handle, struct tek_block *block);

#endif
