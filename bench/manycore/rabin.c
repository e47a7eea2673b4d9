/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "rabin.h"

#include <stdint.h>

#define WINDOW 48 /* bytes that count */

/* Irreducible, so that a fingerprint's bits are as good as random. */
#define DEGREE 53
#define POLYNOMIAL 0x3423a82f978d87u

static uint64_t reduction[256]; /* of what stands above the degree, when a byte comes in */
static uint64_t leaving[256];   /* of the byte that leaves the window */

/* A polynomial of less than the degree, times x. */
static uint64_t times_x(uint64_t polynomial)
{
	polynomial <<= 1;
	return polynomial >> DEGREE ? polynomial ^ POLYNOMIAL : polynomial;
}

void rabin_init(void)
{
	for (unsigned int byte = 0; byte < 256; byte++) {
		uint64_t remainder = byte;
		for (unsigned int i = 0; i < DEGREE; i++)
			remainder = times_x(remainder);
		/* The bits above go out by the same table. */
		reduction[byte] = remainder ^ (uint64_t)byte << DEGREE;
		remainder = byte;
		for (unsigned int i = 0; i < 8 * WINDOW; i++)
			remainder = times_x(remainder);
		leaving[byte] = remainder;
	}
}

static uint64_t append(uint64_t fingerprint, unsigned char byte)
{
	uint64_t longer = fingerprint << 8 | byte;
	return longer ^ reduction[longer >> DEGREE];
}

size_t rabin_cut(const unsigned char *data, size_t size, size_t least, size_t most,
		 unsigned int bits)
{
	uint64_t mask = ((uint64_t)1 << bits) - 1, fingerprint = 0;
	size_t begin = least > WINDOW ? least - WINDOW : 0;

	if (most > size)
		most = size;
	for (size_t at = begin; at < most; at++) {
		fingerprint = append(fingerprint, data[at]);
		if (at >= begin + WINDOW)
			fingerprint ^= leaving[data[at - WINDOW]];
		if (at + 1 >= least && at + 1 >= begin + WINDOW && (fingerprint & mask) == 0)
			return at + 1;
	}
	return most;
}
