/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The content of a stack before its thread runs. */
#include "base/page.h"
#include "stack/config.h"
#include "stack/examine.h"
#include "stack/huge_pages.h"
#include "stack/measure.h"
#include "stack/paint.h"
#include "stack/words.h"
#include "tek_abi.h"
#include "threads/present.h"

#include <string.h>

enum {
	/* Below the frame of the function that paints: what the functions that it calls use. */
	OWN_BYTES = 512,
	SPARED_BYTES = 64 * 1024, /* below that nothing is worth keeping of a huge page */
	EXACT_BYTES = 1 << 20,    /* the largest stack that --stack exact paints: a millisecond */
};

/*
 * A stack that the program gave: up to where what is present has one value, the same all the way.
 */
static void examine_beforehand(struct tek_stack *stack, uintptr_t end)
{
	const uintptr_t low = (tek__examine_low(stack) + sizeof(low) - 1) & ~(sizeof(low) - 1);
	uintptr_t clean = 0, from = 0, value = 0;
	struct tek_run run;
	bool holes = false, dirty = false;

	for (uintptr_t at = low; at < end && !dirty; at = run.end) {
		if (!tek__present_lowest(at, end, TEK_MANY_PAGES, &run))
			return;
		if (run.low >= end)
			break;
		run.low = tek__higher(run.low, low);
		if (!tek__words_can_read(run.low, tek__lower(run.end, end)))
			return;
		holes |= clean && run.low > at;
		if (!clean) {
			value = *(const uintptr_t *)run.low;
			from = run.low;
		}
		size_t words = (tek__lower(run.end, end) - run.low) / sizeof(uintptr_t);
		size_t same = tek__words_same((const uintptr_t *)run.low, words, value);
		clean = run.low + same * sizeof(uintptr_t);
		dirty = same < words;
	}
	stack->fill = value;
	stack->surely_painted = value && !holes;
	stack->painted_from = value ? from : clean;
	if (!dirty)
		__atomic_store_n(&stack->begin, clean, __ATOMIC_RELAXED);
	__atomic_store_n(&stack->clean_end, clean, __ATOMIC_RELEASE);
}

static bool is_to_be_exact(const struct tek_stack *stack)
{
	return tek__stack_config.exact && !stack->first && stack->bytes <= EXACT_BYTES;
}

__attribute__((noinline)) void tek__measure_prepare(struct tek_stack *stack)
{
	const uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	const uintptr_t end = (frame - OWN_BYTES) & ~(uintptr_t)15, low = tek__examine_low(stack);
	const uintptr_t page = ~((uintptr_t)tek__page_bytes - 1);
	bool holes = false;

	if (end <= low || frame >= stack->end)
		return; /* it runs on another stack */
	__atomic_store_n(&stack->begin, frame, __ATOMIC_RELAXED);
	if (stack->flags & TEK_STACK_OWN) {
		examine_beforehand(stack, end);
		return;
	}
	tek__huge_pages_refuse(low & page, (end - SPARED_BYTES) & page, stack->end);
	uintptr_t from = stack->painted_from;
	bool noted = stack->noted_to && stack->noted_to <= end &&
		     *(const uintptr_t *)(stack->noted_to - sizeof(uintptr_t)) == TEK_PAINT;
	if (is_to_be_exact(stack)) {
		from = low;
		noted = false;
		if (!tek__paint(low, end))
			return;
	} else if (noted) {
		memset((void *)stack->noted_to, TEK_PAINT_BYTE, end - stack->noted_to);
	} else if (!tek__paint_present(low, end, &from, &holes)) {
		return;
	}
	stack->painted_from = from;
	stack->noted_to = noted ? stack->noted_to : 0;
	stack->fill = TEK_PAINT;
	stack->surely_painted = !noted && !holes;
	__atomic_store_n(&stack->begin, end, __ATOMIC_RELAXED);
	__atomic_store_n(&stack->clean_end, end, __ATOMIC_RELEASE);
}

void tek__measure_begin_late(struct tek_stack *stack)
{
	struct tek_run run;

	stack->begin = (uintptr_t)__builtin_frame_address(0);
	if (!tek__present_lowest(tek__examine_low(stack), stack->end, 1, &run))
		return;
	stack->painted_from = stack->clean_end = tek__higher(run.low, tek__examine_low(stack));
	stack->is_late = true;
}
