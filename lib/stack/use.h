/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A thread's stack, and how much of it was used (tek-2020, IV-B).
 *
 * Sizes are counted from the end of the stack, its highest address, so the thread's control
 * block and static TLS, which the C library keeps there, are in them; the guard is not.
 * What is used lies between two numbers: `peak` bytes certainly, `bound` bytes at most.
 */
#ifndef TEK_STACK_USE_H
#define TEK_STACK_USE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tek_stack_use {
	uint32_t peak_bytes;
	uint32_t bound_bytes;
	unsigned char flags; /* TEK_STACK_EXACT, TEK_STACK_UNCLEAN */
};

struct tek_stack {
	size_t bytes;             /* its size; until the thread has begun: what was asked for */
	uintptr_t end;            /* address behind its top; 0: not known */
	struct tek_stack_use use; /* all zero: not measured */
	unsigned char flags;      /* TEK_STACK_*, those of `use` apart */
	unsigned char zone;       /* TEK_ZONE_* */
	bool measured;            /* it will be measured when it ends */
	unsigned short site;      /* where it was created: stack/kind.h; 0: none */
	unsigned short kind;      /* number of its kind in the table; 0: none yet */

	/* Known once it has been prepared: what is below `clean_end` holds `fill` where it is present. */
	uintptr_t clean_end;
	uintptr_t painted_from; /* and was present from here up; stack/measure.h */
	uintptr_t fill;

	size_t reserve_bytes; /* of `bytes`, at its low end: stack/grow.h */
	void *signal_stack;   /* stack/signal_stack.h; NULL: none of ours */
};

#endif
