/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where the stack of a thread lies.  pthread_getattr_np(3) says it, but allocates memory to do
 * so, which would give each thread a malloc arena; so it is asked once, to find out where the C
 * library keeps its answer.
 */
#ifndef TEK_STACK_AREA_H
#define TEK_STACK_AREA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tek_area {
	uintptr_t low, end; /* usable from low up to, not with, end */
	size_t guard_bytes; /* below low */
	bool own;           /* memory of the program: pthread_attr_setstack(3) */
};

void tek__area_start(void);

/* The calling thread's; the first thread's as far as its limit lets it grow now. False: not known. */
bool tek__area_of_self(struct tek_area *area);

#endif
