/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sha1.h"

#include <string.h>

#define BLOCK 64

static uint32_t rotate(uint32_t word, unsigned int by)
{
	return word << by | word >> (32 - by);
}

static void mix_block(uint32_t hash[5], const uint8_t *block)
{
	uint32_t w[80], a = hash[0], b = hash[1], c = hash[2], d = hash[3], e = hash[4];

	for (unsigned int t = 0; t < 16; t++)
		w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 |
		       (uint32_t)block[4 * t + 2] << 8 | block[4 * t + 3];
	for (unsigned int t = 16; t < 80; t++)
		w[t] = rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
	for (unsigned int t = 0; t < 80; t++) {
		uint32_t f, k;
		if (t < 20) {
			f = (b & c) | (~b & d);
			k = 0x5a827999;
		} else if (t < 40) {
			f = b ^ c ^ d;
			k = 0x6ed9eba1;
		} else if (t < 60) {
			f = (b & c) | (b & d) | (c & d);
			k = 0x8f1bbcdc;
		} else {
			f = b ^ c ^ d;
			k = 0xca62c1d6;
		}
		uint32_t next = rotate(a, 5) + f + e + k + w[t];
		e = d;
		d = c;
		c = rotate(b, 30);
		b = a;
		a = next;
	}
	hash[0] += a;
	hash[1] += b;
	hash[2] += c;
	hash[3] += d;
	hash[4] += e;
}

void sha1(const void *data, size_t size, uint8_t digest[SHA1_BYTES])
{
	uint32_t hash[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
	const uint8_t *bytes = data;
	uint64_t bits = (uint64_t)size * 8;
	uint8_t end[2 * BLOCK] = {0};
	size_t left = size % BLOCK, padded = left + 9 > BLOCK ? 2 * BLOCK : BLOCK;

	for (size_t at = 0; at + BLOCK <= size; at += BLOCK)
		mix_block(hash, bytes + at);
	memcpy(end, bytes + size - left, left);
	end[left] = 0x80;
	for (unsigned int i = 0; i < 8; i++)
		end[padded - 1 - i] = (uint8_t)(bits >> 8 * i);
	for (size_t at = 0; at < padded; at += BLOCK)
		mix_block(hash, end + at);
	for (unsigned int i = 0; i < SHA1_BYTES; i++)
		digest[i] = (uint8_t)(hash[i / 4] >> (24 - 8 * (i % 4)));
}
