/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The variable TEK_ALLOC: the kind of allocator that libtek-alloc.so is.  `tek run --alloc` accepts
 * the same text (crates/tek-command/src/values/alloc.rs).
 */
#ifndef TEK_ALLOC_OPTIONS_H
#define TEK_ALLOC_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tek_alloc_options {
	size_t pool; /* bytes; 0: no pool */
};

/*
 * "tlsf" or "pool=SIZE", as in pool=65536, pool=64K, pool=8M, pool=1G: TEK_ALLOC_KINDS of
 * tek_options.h.  False, and nothing is set: it is neither.
 */
bool tek_alloc__options_parse(struct tek_alloc_options *options, const char *text);

#endif
