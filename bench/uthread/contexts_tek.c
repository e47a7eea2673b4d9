/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "contexts.h"

#include "arch/context.h"

#include <stddef.h>

static struct tek_context own, other;

static const struct tek_context *switch_back(void *unused)
{
	(void)unused;
	for (;;)
		tek__context_switch(&other, &own);
	return NULL;
}

void switch_tek(char *stack, uint64_t times)
{
	tek__context_make(&other, stack + CONTEXT_STACK_BYTES, switch_back, NULL);
	for (uint64_t i = 0; i < times; i++)
		tek__context_switch(&own, &other);
}
