/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): the same
 * numbers everywhere.
 */
#ifndef MANYCORE_RANDOM_H
#define MANYCORE_RANDOM_H

#include <stdint.h>

struct random {
	uint64_t state; /* at first the seed */
};

static inline uint64_t random_bits(struct random *random)
{
	uint64_t z = random->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/*
 * From 0 to before `limit`; what it prefers by the remainder is nothing for a limit that is far
 * below 2^64.
 */
static inline uint64_t random_below(struct random *random, uint64_t limit)
{
	return random_bits(random) % limit;
}

/* From 0 to before 1. */
static inline double random_unit(struct random *random)
{
	return (double)(random_bits(random) >> 11) * 0x1p-53;
}

#endif
