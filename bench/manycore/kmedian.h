/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Clustering of points that are all known: which of them should be centres so that all others are
 * near one.  Local search for facilities at a cost (Charikar, Guha: Improved combinatorial
 * algorithms for the facility location and k-median problems, 1999), where the cost of a centre is
 * searched for that gives the number of centres that is wanted.
 *
 * Distances are whole numbers, so sums do not depend on which thread adds: the result is that of
 * one thread.
 */
#ifndef MANYCORE_KMEDIAN_H
#define MANYCORE_KMEDIAN_H

#include <stdint.h>

#define DIMENSIONS 32

struct point {
	float at[DIMENSIONS];
	int64_t weight;
};

/* Between two places; 2^20 is 1. */
int64_t place_distance(const float *one, const float *other);

/* The centre of each point, and its distance to it times its weight. */
struct assignment {
	uint32_t *centre;
	int64_t *cost;
};

/*
 * Chooses between `least` and `most` centres by program.threads threads, which are created here and
 * joined.
 * Returns how many there are; *barriers grows by how many barriers each thread went through.
 */
unsigned int kmedian(const struct point *points, uint32_t count, unsigned int least,
		     unsigned int most, const struct assignment *assignment, uint64_t *barriers);

#endif
