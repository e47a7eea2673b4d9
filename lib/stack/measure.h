/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How much of a stack was used.
 *
 * Pages that are not present were not used: the lowest present page is the bound. A word that
 * differs from its earlier value was certainly used. A page that is not present is never read,
 * because reading makes it present.
 *
 * Before: pages that the kernel gives are zero, so a word that is not was written; one that is may
 * have been, too. Where the C library hands on the stack of an earlier thread, and where all pages
 * are present from the start (mlockall(2)), what is present is painted before the thread runs:
 * there both numbers are the same. A painted page that was taken away (the C library drops all but
 * the top of a stack that it keeps) has zeros instead of paint: then only the bound says so. Stacks
 * that the program gave are never painted, but their content is read beforehand: it may be one
 * value over and over.
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
