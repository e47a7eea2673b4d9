/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Measures a stack in addresses. It finds the lowest present page, and reads from there upwards to
 * the first word that differs from its value before the thread ran. stack/measure.h has the
 * reasons.
 */
#ifndef TEK_STACK_EXAMINE_H
#define TEK_STACK_EXAMINE_H

#include "stack/words.h"
#include "threads/stack_use.h"

/* The result of a measurement, in addresses. */
struct tek_found {
	uintptr_t lowest;  /* present page */
	uintptr_t bound;   /* nothing below was used */
	uintptr_t certain; /* this was */
	bool at_paint;     /* paint was changed there, so both are right to the byte */
};

/* Where a look begins: the lowest address that can have been used. */
uintptr_t tek__examine_low(const struct tek_stack *stack);

/* False: the kernel does not say which pages are present. No allocation; async-signal-safe. */
bool tek__examine(const struct tek_stack *stack, tek_words_reader *read, struct tek_found *found);

/*
 * The same in [low, end) only. All its pages are present, and nothing below was used.  True: a
 * changed word was found there.
 */
bool tek__examine_range(const struct tek_stack *stack, tek_words_reader *read, uintptr_t low,
			uintptr_t end, struct tek_found *found);

/* The result of a measurement, in bytes. */
void tek__examine_sum_up(const struct tek_stack *stack, struct tek_found *found,
			 struct tek_stack_use *use);

static inline uint32_t tek__examine_bytes(uintptr_t end, uintptr_t address)
{
	uintptr_t bytes = end - address;
	return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

#endif
