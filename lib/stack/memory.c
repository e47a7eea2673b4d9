/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/memory.h"

#include "base/page.h"
#include "threads/present.h"

#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>

size_t tek__memory_addresses(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur < SIZE_MAX)
		return (size_t)limit.rlim_cur;
	return SIZE_MAX;
}

bool tek__memory_is_filled(void)
{
	struct tek_run run;
	void *page = mmap(NULL, tek__page_bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return false;
	const uintptr_t low = (uintptr_t)page, end = low + tek__page_bytes;
	const bool filled = tek__present_lowest(low, end, 1, &run) && run.low == low;
	munmap(page, tek__page_bytes);
	return filled;
}
