/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/segment.h"

int tek__segment_find(struct dl_phdr_info *info, size_t size, void *value)
{
	struct tek_segment *sought = value;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		const uintptr_t at = sought->address - (info->dlpi_addr + segment->p_vaddr);
		if (segment->p_type != PT_LOAD || at >= segment->p_memsz ||
		    sought->bytes > segment->p_memsz - at)
			continue;
		sought->flags = segment->p_flags;
		return 1;
	}
	return 0;
}
