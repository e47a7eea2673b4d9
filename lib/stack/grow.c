/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/grow.h"

size_t tek__grow_reserve(size_t bytes)
{
	(void)bytes;
	return 0;
}

void tek__grow_begin(struct tek_thread *thread)
{
	(void)thread;
}

void tek__grow_end(struct tek_thread *thread)
{
	(void)thread;
}

bool tek__grow_at(struct tek_thread *thread, uintptr_t address)
{
	(void)thread;
	(void)address;
	return false;
}
