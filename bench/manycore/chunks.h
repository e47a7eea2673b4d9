/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The chunks that dedup has found: data, each once, by their SHA-1, in a hash table with a mutex in
 * each bucket.
 *
 * A chunk that is in the table stays, with its address, until chunks_clear().  The thread that
 * found a new one compresses it.  A thread that needs the result waits on the chunk's own condition
 * variable, under the mutex of its bucket.
 */
#ifndef MANYCORE_CHUNKS_H
#define MANYCORE_CHUNKS_H

#include "sha1.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHUNK_BUCKETS 150001 /* a prime; as many locks as PARSEC's dedup has */

struct chunk {
	struct chunk *next; /* in the bucket */
	uint8_t digest[SHA1_BYTES];
	pthread_cond_t compressed;
	uint8_t *data; /* compressed; NULL: not yet */
	size_t size;
	bool written; /* its writer's */
};

void chunks_init(void);

/*
 * The chunk with this SHA-1; *is_new: this is its first request, and the caller has to compress it.
 */
struct chunk *chunks_find(const uint8_t digest[SHA1_BYTES], bool *is_new);

/* `data` is the chunk's from then on. */
void chunk_set(struct chunk *chunk, uint8_t *data, size_t size);

/* Waits until its data is set. */
void chunk_await(struct chunk *chunk);

/* How often a bucket was locked; when no other thread is at it. */
uint64_t chunks_locked(void);

void chunks_clear(void);

#endif
