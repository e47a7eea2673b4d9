/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* FNV-1a: distinguishes results, for people and tests. */
#ifndef MANYCORE_FINGERPRINT_H
#define MANYCORE_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

#define FINGERPRINT_BEGIN 0xcbf29ce484222325u

static inline uint64_t fingerprint(uint64_t hash, const void *data, size_t size)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3u;
	return hash;
}

#endif
