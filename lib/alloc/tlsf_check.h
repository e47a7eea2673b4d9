/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef TEK_ALLOC_TLSF_CHECK_H
#define TEK_ALLOC_TLSF_CHECK_H

#include "alloc/tlsf.h"

/* For tests: NULL, or what is wrong in the piece of memory that was added as `memory`. It loops. */
const char *tek_alloc__tlsf_check(const struct tek_tlsf *heap, const void *memory);

#endif
