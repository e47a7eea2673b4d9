/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/measure.h"

#include "base/page.h"
#include "stack/examine.h"
#include "stack/words.h"
#include "threads/present.h"

bool tek__measure_self(const struct tek_stack *stack, struct tek_stack_use *use)
{
	struct tek_found found;

	if (!tek__examine(stack, tek__words_own, &found))
		return false;
	tek__examine_sum_up(stack, &found, use);
	return true;
}

/*
 * Whether its thread has not come to its end meanwhile, and painted what was looked at.  It says
 * so first (tek__measure_last()).  Nothing that was read before can be later than this: it is a
 * write, too, of what is there.  A fence would do, but ThreadSanitizer does not know fences.
 */
static bool is_unchanged(const struct tek_stack *stack, uintptr_t clean_end)
{
	uintptr_t *now = (uintptr_t *)&stack->clean_end;
	return __atomic_fetch_add(now, 0, __ATOMIC_SEQ_CST) == clean_end;
}

bool tek__measure_other(const struct tek_stack *stack, struct tek_stack_use *use)
{
	const uintptr_t clean_end = __atomic_load_n(&stack->clean_end, __ATOMIC_ACQUIRE);
	struct tek_stack now = {
		.bytes = stack->bytes,
		.end = stack->end,
		.reserve_bytes = stack->reserve_bytes,
		.first = stack->first,
		.begin = __atomic_load_n(&stack->begin, __ATOMIC_RELAXED),
		.clean_end = clean_end,
	};
	struct tek_found found;

	if (clean_end) {
		now.painted_from = stack->painted_from;
		now.fill = stack->fill;
		now.noted_to = stack->noted_to;
		now.surely_painted = stack->surely_painted;
		now.is_late = stack->is_late;
	}
	tek__words_other_begin();
	if (!tek__examine(&now, tek__words_other, &found))
		return false;
	tek__examine_sum_up(&now, &found, use);
	return is_unchanged(stack, clean_end);
}

bool tek__measure_other_roughly(const struct tek_stack *stack, struct tek_stack_use *use)
{
	const uintptr_t clean_end = __atomic_load_n(&stack->clean_end, __ATOMIC_ACQUIRE);
	struct tek_run run;

	if (!clean_end || stack->first ||
	    !tek__present_lowest(tek__examine_low(stack), stack->end, 1, &run) ||
	    !run.surely_written || run.low >= stack->painted_from ||
	    run.low < tek__examine_low(stack))
		return tek__measure_other(stack, use);
	*use = (struct tek_stack_use){
		.peak_bytes = tek__examine_bytes(stack->end, run.low + tek__page_bytes - 1),
		.bound_bytes = tek__examine_bytes(stack->end, run.low),
	};
	return is_unchanged(stack, clean_end);
}

void tek__measure_forget(void)
{
	tek__present_forget();
}
