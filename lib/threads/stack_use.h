/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A thread's stack, and how much of it was used (tek-2020, IV-B).
 *
 * Sizes are counted from the end of the stack, its highest address, so the thread's control block
 * and static TLS, which the C library keeps there, are in them; the guard is not. The use lies
 * between two numbers: `peak` bytes certainly, `bound` bytes at most.
 */
#ifndef TEK_THREADS_STACK_USE_H
#define TEK_THREADS_STACK_USE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tek_stack_use {
	uint32_t peak_bytes;
	uint32_t bound_bytes;
	unsigned char flags; /* TEK_STACK_EXACT, TEK_STACK_UNCLEAN */
	bool unprepared;     /* measured without knowing what had been there before */
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
	unsigned short labelled;  /* the kind of the label that it got last; 0: it has none */
	bool counted;             /* it is one of that kind's threads */

	/*
	 * The content before it ran, for stack/measure.h. Below `painted_from` nothing: zeros, once
	 * pages are there. From there to `clean_end` the word `fill`. Above, anything. The thread
	 * itself writes it without the lock, clean_end last, which is 0 meanwhile.
	 */
	uintptr_t painted_from, clean_end; /* clean_end 0: nothing is known */
	uintptr_t fill;
	uintptr_t noted_to;  /* as another thread left it: painted up to here; 0: not known */
	uintptr_t begin;     /* it certainly used what is above */
	bool is_late;        /* it ran already, and below clean_end no page was present */
	bool surely_painted; /* no page of the painted part can have been taken away since */
	bool first; /* the process's first thread's: `bytes` is its limit, 0 if unlimited */

	uintptr_t left_from, left_to; /* at its end: painted for the next thread; left_to 0: not */

	size_t reserve_bytes; /* of `bytes`, at its low end: stack/grow.h */
	size_t room_bytes;    /* below it, in its guard: likewise */
	uintptr_t own_low;    /* its low end as the C library made it, if there was room; else 0 */
	void *signal_stack;   /* stack/signal_stack.h; NULL: none of ours */
	bool hides_segv;      /* its creator does: stack/mask.h */
};

#endif
