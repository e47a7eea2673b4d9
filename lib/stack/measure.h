/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Measures the used part of a stack.
 *
 * An absent page was not used: the lowest present page gives the bound. A word that differs from
 * its earlier value was certainly used. The lowest such word gives the peak. Absent pages are never
 * read, because reading makes them present.
 *
 * Fresh pages of the kernel are zero. A word that is not zero was written; a zero may have been
 * written, too. Some stacks have present pages before the thread runs: the C library reuses the
 * stack of an earlier thread, or mlockall(2) is in force. TEK paints these pages, and then peak and
 * bound are equal. The C library drops all but the top of a stack that it keeps. A painted page
 * that was dropped has zeros instead of paint, so only the bound counts it.
 *
 * A stack that the program gave is never painted. TEK reads its content before the thread runs: it
 * may be one value over and over.
 */
#ifndef TEK_STACK_MEASURE_H
#define TEK_STACK_MEASURE_H

#include "threads/stack_use.h"

/* The calling thread's stack, before it runs. */
void tek__measure_prepare(struct tek_stack *stack);

/* The same for a thread that has run for a while: what is present now may be an earlier one's. */
void tek__measure_begin_late(struct tek_stack *stack);

/* The calling thread's. False: not known. No lock, no allocation; async-signal-safe. */
bool tek__measure_self(const struct tek_stack *stack, struct tek_stack_use *use);

/* The same at its end, and paint for the next thread. */
bool tek__measure_last(struct tek_stack *stack, struct tek_stack_use *use);

/*
 * The stack of another thread of this process, which may begin or end meanwhile: then false. Reads
 * by system calls only, and of tens of megabytes of zeros not all: then only the bound is reported.
 * Needs the lock.
 */
bool tek__measure_other(const struct tek_stack *stack, struct tek_stack_use *use);

/*
 * Another's, at a third of the price: of the lowest page that it used it is not looked which
 * bytes.
 */
bool tek__measure_other_roughly(const struct tek_stack *stack, struct tek_stack_use *use);

/* The program locks memory: pages come without being used from now on. */
void tek__measure_memory_is_locked(void);

/* Whether it has done so. */
bool tek__measure_pages_come_unused(void);

/* In the child of a fork. */
void tek__measure_forget(void);

#endif
