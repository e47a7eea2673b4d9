/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The mappings of the process, as the kernel reports them. */
#ifndef STACK_MAPS_H
#define STACK_MAPS_H

#include <stddef.h>
#include <stdint.h>

struct range {
	uintptr_t low, end;
	size_t mapped; /* bytes between them that are mapped */
};

/*
 * Sets `mapped` of the ranges, which do not overlap; sorts them. Exits with a message on failure.
 */
void maps_measure(struct range *ranges, size_t count);

/* Resident memory of the process, page by page: VmRSS is only about right. */
uint64_t resident_bytes(void);

/* A line of /proc/self/status in bytes, such as "VmSize". */
uint64_t status_bytes(const char *name);

#endif
