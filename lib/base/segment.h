/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A segment of a loaded file, by an address in it. Needs no lock. */
#ifndef TEK_BASE_SEGMENT_H
#define TEK_BASE_SEGMENT_H

#include <link.h>
#include <stdint.h>

struct tek_segment {
	uintptr_t address;  /* where it is to have */
	size_t bytes;       /* so many */
	unsigned int flags; /* found: its PF_R, PF_W and PF_X */
};

/* For dl_iterate_phdr(3), with a struct tek_segment: 1 if the file has that segment. */
int tek__segment_find(struct dl_phdr_info *info, size_t size, void *segment);

#endif
