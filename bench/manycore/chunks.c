/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "chunks.h"

#include "program.h"

#include <stdlib.h>
#include <string.h>

struct bucket {
	pthread_mutex_t mutex;
	struct chunk *first;
	uint64_t locked;
};

static struct bucket *buckets;

static struct bucket *bucket_of(const uint8_t digest[SHA1_BYTES])
{
	uint64_t number;

	memcpy(&number, digest, sizeof(number));
	return &buckets[number % CHUNK_BUCKETS];
}

static void lock(struct bucket *bucket)
{
	program_must(pthread_mutex_lock(&bucket->mutex), "cannot lock");
	bucket->locked++;
}

static void unlock(struct bucket *bucket)
{
	program_must(pthread_mutex_unlock(&bucket->mutex), "cannot unlock");
}

void chunks_init(void)
{
	buckets = program_memory(calloc(CHUNK_BUCKETS, sizeof(*buckets)));
	for (unsigned int i = 0; i < CHUNK_BUCKETS; i++)
		program_must(pthread_mutex_init(&buckets[i].mutex, NULL), "no mutex");
}

struct chunk *chunks_find(const uint8_t digest[SHA1_BYTES], bool *is_new)
{
	struct bucket *bucket = bucket_of(digest);
	struct chunk *it;

	lock(bucket);
	it = bucket->first;
	while (it && memcmp(it->digest, digest, SHA1_BYTES) != 0)
		it = it->next;
	*is_new = !it;
	if (!it) {
		it = program_memory(calloc(1, sizeof(*it)));
		memcpy(it->digest, digest, SHA1_BYTES);
		program_must(pthread_cond_init(&it->compressed, NULL), "no condition variable");
		it->next = bucket->first;
		bucket->first = it;
	}
	unlock(bucket);
	return it;
}

void chunk_set(struct chunk *chunk, uint8_t *data, size_t size)
{
	struct bucket *bucket = bucket_of(chunk->digest);

	lock(bucket);
	chunk->data = data;
	chunk->size = size;
	program_must(pthread_cond_broadcast(&chunk->compressed), "cannot wake");
	unlock(bucket);
}

void chunk_await(struct chunk *chunk)
{
	struct bucket *bucket = bucket_of(chunk->digest);

	lock(bucket);
	while (!chunk->data)
		program_must(pthread_cond_wait(&chunk->compressed, &bucket->mutex), "cannot wait");
	unlock(bucket);
}

uint64_t chunks_locked(void)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < CHUNK_BUCKETS; i++)
		sum += buckets[i].locked;
	return sum;
}

void chunks_clear(void)
{
	for (unsigned int i = 0; i < CHUNK_BUCKETS; i++) {
		struct chunk *it = buckets[i].first;
		while (it) {
			struct chunk *next = it->next;
			pthread_cond_destroy(&it->compressed);
			free(it->data);
			free(it);
			it = next;
		}
		pthread_mutex_destroy(&buckets[i].mutex);
	}
	free(buckets);
}
