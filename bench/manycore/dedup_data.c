/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "dedup_data.h"

#include "program.h"
#include "random.h"
#include "sha1.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define WORDS 2048
#define LONGEST 11
#define PASSAGE 65536 /* what is repeated, or new, at most at a time */
#define BUCKETS 65536

static size_t write_words(uint8_t *to, size_t size, struct random *random,
			  char words[WORDS][LONGEST + 2])
{
	size_t at = 0;

	while (at < size) {
		/* Some are far more frequent than others, as in any language. */
		uint64_t number = random_below(random, random_below(random, WORDS) + 1);
		size_t length = strlen(words[number]);
		if (length > size - at)
			length = size - at;
		memcpy(to + at, words[number], length);
		at += length;
	}
	return at;
}

void dedup_generate(uint8_t *data, size_t size)
{
	struct random random = {150000};
	char words[WORDS][LONGEST + 2] = {{0}};
	size_t at = 0;

	for (unsigned int i = 0; i < WORDS; i++) {
		uint64_t length = 2 + random_below(&random, LONGEST - 1);
		for (uint64_t k = 0; k < length; k++)
			words[i][k] = (char)('a' + random_below(&random, 26));
		words[i][length] = ' ';
	}
	while (at < size) {
		size_t passage = 1 + random_below(&random, PASSAGE);
		if (passage > size - at)
			passage = size - at;
		if (at > PASSAGE && random_below(&random, 2) == 0)
			memcpy(data + at, data + random_below(&random, at - passage), passage);
		else
			write_words(data + at, passage, &random, words);
		at += passage;
	}
}

/* Chunks that were unpacked: where they stand in the data. */
struct known {
	struct known *next;
	uint8_t digest[SHA1_BYTES];
	size_t at, size;
};

struct unpacking {
	const uint8_t *data;
	size_t size, at;
	struct known *buckets[BUCKETS];
};

static struct known **bucket(struct unpacking *it, const uint8_t digest[SHA1_BYTES])
{
	return &it->buckets[digest[0] << 8 | digest[1]];
}

static bool unpack_new(struct unpacking *it, FILE *file)
{
	size_t left = it->size - it->at;
	uint8_t *packed, *chunk;
	uLongf unpacked = left;
	uint32_t size;
	bool good;

	if (fread(&size, sizeof(size), 1, file) != 1 || size > compressBound(left))
		return false;
	packed = program_memory(malloc(size));
	chunk = program_memory(malloc(left ? left : 1));
	good = fread(packed, 1, size, file) == size &&
	       uncompress(chunk, &unpacked, packed, size) == Z_OK &&
	       memcmp(chunk, it->data + it->at, unpacked) == 0;
	free(packed);
	free(chunk);
	if (!good)
		return false;
	struct known *known = program_memory(malloc(sizeof(*known)));
	known->at = it->at;
	known->size = unpacked;
	sha1(it->data + it->at, unpacked, known->digest);
	known->next = *bucket(it, known->digest);
	*bucket(it, known->digest) = known;
	it->at += unpacked;
	return true;
}

static bool unpack_known(struct unpacking *it, FILE *file)
{
	uint8_t digest[SHA1_BYTES];
	struct known *known;

	if (fread(digest, SHA1_BYTES, 1, file) != 1)
		return false;
	known = *bucket(it, digest);
	while (known && memcmp(known->digest, digest, SHA1_BYTES) != 0)
		known = known->next;
	if (!known || known->size > it->size - it->at ||
	    memcmp(it->data + it->at, it->data + known->at, known->size) != 0)
		return false;
	it->at += known->size;
	return true;
}

bool dedup_unpacks_to(FILE *file, const uint8_t *data, size_t size)
{
	struct unpacking *it = program_memory(calloc(1, sizeof(*it)));
	bool good = true;
	int record;

	it->data = data;
	it->size = size;
	rewind(file);
	while (good && (record = fgetc(file)) != EOF) {
		if (record == RECORD_NEW)
			good = unpack_new(it, file);
		else
			good = record == RECORD_KNOWN && unpack_known(it, file);
	}
	good = good && it->at == size;
	for (unsigned int i = 0; i < BUCKETS; i++) {
		while (it->buckets[i]) {
			struct known *next = it->buckets[i]->next;
			free(it->buckets[i]);
			it->buckets[i] = next;
		}
	}
	free(it);
	return good;
}
