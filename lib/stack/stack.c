/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/stack.h"

#include "ident/sanitizer.h"
#include "ident/thread.h"
#include "mediate/report.h"
#include "stack/area.h"
#include "stack/config.h"
#include "stack/grow.h"
#include "stack/kind.h"
#include "stack/measure.h"
#include "stack/overflow.h"
#include "stack/signal_stack.h"
#include "stack/size.h"
#include "stack/watch.h"

void tek__stack_start(void)
{
	tek__stack_config_read();
	/* Its runtime makes stacks larger, and has its own ways with them. */
	if (tek__sanitizer_is_loaded())
		tek__stack_config.mode = TEK_STACK_MODE_OFF;
	tek__area_start();
	if (!tek__stack_is_on())
		return;
	tek__size_start();
	tek__kinds_start();
}

void tek__stack_forget(void)
{
	tek__measure_forget();
	tek__kinds_forget();
	tek__signal_stack_forget();
	tek__watch_forget();
}

const pthread_attr_t *tek__stack_choose(struct tek_thread *thread, const pthread_attr_t *attr,
					pthread_attr_t *own)
{
	struct tek_stack *stack = &thread->stack;

	if (!tek__stack_is_on())
		return attr;
	stack->site = tek__site_of(thread);
	stack->measured = tek__site_wants_measure(stack->site);
	tek__watch_start();
	return tek__size_choose(stack, attr, own);
}

void tek__stack_refused(struct tek_thread *thread)
{
	thread->stack.flags &= (unsigned char)~TEK_STACK_TUNED;
	thread->stack.reserve_bytes = 0;
}

void tek__stack_locate(struct tek_thread *thread)
{
	struct tek_stack *stack = &thread->stack;
	struct tek_area area;

	if (!tek__area_of_self(&area))
		return;
	stack->bytes = area.end - area.low;
	stack->end = area.end;
	if (area.own)
		stack->flags |= TEK_STACK_OWN;
}

void tek__stack_prepare(struct tek_thread *thread)
{
	struct tek_stack *stack = &thread->stack;

	if (stack->flags & TEK_STACK_TUNED) {
		tek__signal_stack_give(thread);
		tek__overflow_watch();
		if (stack->reserve_bytes)
			tek__grow_begin(thread);
	}
	if (stack->measured && stack->end)
		tek__measure_prepare(stack);
}

bool tek__stack_measure_at_end(struct tek_thread *thread, struct tek_stack_use *use)
{
	const struct tek_stack *stack = &thread->stack;
	bool measured = stack->measured && stack->end && tek__measure_self(stack, use);

	if (stack->reserve_bytes)
		tek__grow_end(thread);
	return measured;
}

void tek__stack_gone(struct tek_thread *thread)
{
	struct tek_stack_use use;

	if (tek__stack_is_on() && thread->stack.measured && thread->stack.end &&
	    tek__measure_other(&thread->stack, &use))
		tek__stack_measured(thread, &use);
}

void tek__stack_release(struct tek_thread *thread)
{
	if (thread->stack.signal_stack)
		tek__signal_stack_release(thread);
}

static unsigned char zone_of(const struct tek_stack *stack)
{
	uint64_t used = (uint64_t)stack->use.peak_bytes * 100;

	if (!stack->bytes || !used)
		return TEK_ZONE_NONE;
	if (used < (uint64_t)stack->bytes * tek__stack_config.low_percent)
		return TEK_ZONE_LOW;
	return used > (uint64_t)stack->bytes * tek__stack_config.high_percent ? TEK_ZONE_HIGH
									      : TEK_ZONE_NORMAL;
}

void tek__stack_measured(struct tek_thread *thread, const struct tek_stack_use *use)
{
	struct tek_stack *stack = &thread->stack;

	stack->use = *use;
	stack->zone = zone_of(stack);
	if (tek__kind_note(thread, use))
		tek__report_stack_high(thread);
}
