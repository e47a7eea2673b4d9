/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Memory that is there: every page in the page table, written to, and locked where that is allowed.
 */
#ifndef TEK_ALLOC_POOL_H
#define TEK_ALLOC_POOL_H

#include <stddef.h>

/* So many, or up to a page more. */
size_t tek_alloc__whole_pages(size_t bytes);

/* 0, or an error number: it is not present, or present but not locked. */
int tek_alloc__pool_populate(void *memory, size_t bytes);
int tek_alloc__pool_lock(void *memory, size_t bytes);

/* New memory of so many bytes (pages), present; NULL and errno. */
void *tek_alloc__pool_make(size_t bytes);

#endif
