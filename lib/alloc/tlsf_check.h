/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef TEK_ALLOC_TLSF_CHECK_H
#define TEK_ALLOC_TLSF_CHECK_H

#include "alloc/tlsf.h"

/*
 * For tests: checks the piece of memory that was added as `memory`. Returns NULL, or the text of
 * the first mistake. Its time grows with the number of blocks.
 */
const char *tek_alloc__tlsf_check(const struct tek_tlsf *heap, const void *memory);

#endif
