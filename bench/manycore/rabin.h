/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Cuts data where the fingerprint of the bytes before (Rabin: Fingerprinting by random polynomials,
 * 1981) has some low bits that are zero.  The place depends on those bytes only, so the same data
 * is cut alike wherever it stands.
 */
#ifndef MANYCORE_RABIN_H
#define MANYCORE_RABIN_H

#include <stddef.h>

/* Before any other; then any thread may cut. */
void rabin_init(void);

/*
 * How long the first chunk is: `least` bytes at least, `most` at most, else so that the low `bits`
 * bits are zero; all of it if it ends before.
 */
size_t rabin_cut(const unsigned char *data, size_t size, size_t least, size_t most,
		 unsigned int bits);

#endif
