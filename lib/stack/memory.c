/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/memory.h"

#include "ident/process.h"

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
	unsigned char resident = 0;
	void *page = mmap(NULL, tek__page_bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return false;
	if (mincore(page, tek__page_bytes, &resident))
		resident = 0;
	munmap(page, tek__page_bytes);
	return resident & 1;
}
