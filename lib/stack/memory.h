/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The cost of memory to the process beside the pages that it touches. */
#ifndef TEK_STACK_MEMORY_H
#define TEK_STACK_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of addresses that it may have: RLIMIT_AS, or what there is; SIZE_MAX: no limit. */
size_t tek__memory_addresses(void);

/*
 * Whether new memory is locked, and filled at once: mlockall(MCL_FUTURE).  MCL_ONFAULT does not
 * count: it locks what is touched.  Makes three system calls.
 */
bool tek__memory_is_filled(void);

#endif
