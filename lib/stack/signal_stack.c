/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/signal_stack.h"

void tek__signal_stack_give(struct tek_thread *thread)
{
	(void)thread;
}

void tek__signal_stack_release(struct tek_thread *thread)
{
	(void)thread;
}

void tek__signal_stack_forget(void) {}
