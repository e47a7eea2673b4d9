/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The size of a page. */
#ifndef TEK_BASE_PAGE_H
#define TEK_BASE_PAGE_H

#include <stddef.h>

/* Set by tek__page_start(); constant afterwards. */
extern size_t tek__page_bytes;

/* The start of each library calls it. Idempotent. */
void tek__page_start(void);

#endif
