/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The functions that lock memory, which make unused pages present (stack/measure.h). */
#include "base/export.h"
#include "base/real.h"
#include "life/start.h"
#include "stack/measure.h"

#include <sys/mman.h>

TEK_EXPORT int mlock(const void *address, size_t bytes)
{
	if (tek__start())
		tek__measure_memory_is_locked();
	return tek__real.mlock(address, bytes);
}

TEK_EXPORT int mlock2(const void *address, size_t bytes, unsigned int flags)
{
	if (tek__start())
		tek__measure_memory_is_locked();
	return tek__real.mlock2(address, bytes, flags);
}

TEK_EXPORT int mlockall(int flags)
{
	if (tek__start())
		tek__measure_memory_is_locked();
	return tek__real.mlockall(flags);
}
