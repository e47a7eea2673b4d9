/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/measure.h"

void tek__measure_prepare(struct tek_stack *stack)
{
	(void)stack;
}

bool tek__measure_self(const struct tek_stack *stack, struct tek_stack_use *use)
{
	(void)stack;
	(void)use;
	return false;
}

bool tek__measure_other(const struct tek_stack *stack, struct tek_stack_use *use)
{
	(void)stack;
	(void)use;
	return false;
}

void tek__measure_forget(void) {}
