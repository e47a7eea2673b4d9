/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kinds of this program's profile, in memory: read once at the start, constant afterwards.
 * The functions need no lock.
 */
#ifndef TEK_STACK_LEARNT_H
#define TEK_STACK_LEARNT_H

#include "stack/profile.h"

#include <stdint.h>

struct tek_learnt_site {
	uint64_t bound_bytes;    /* of the kind with the largest; 0: none is known */
	uint64_t growth_bytes;   /* of the kind with the bound that differs most between two runs */
	uint64_t peak_bytes;     /* of the kind with the largest */
	uint64_t overflow_bytes; /* the same */
	uint64_t threads;        /* of all of them */
	uint64_t runs;           /* of the kind with the most */
};

void tek__learnt_start(void);

/*
 * The known data of threads that run this function and are created there, both addresses in this
 * process, with files that must be listed (base/module.h). All kinds count that may have the two:
 * their labels come later, and a kind without a known caller may have any.
 */
struct tek_learnt_site tek__learnt_of(uintptr_t function, uintptr_t call_site);

/* The same of those with this label only, which may be none. */
struct tek_learnt_site tek__learnt_of_label(uintptr_t function, uintptr_t call_site,
					    const struct tek_label *label);

#endif
