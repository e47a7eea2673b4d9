/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

/*
 * How many bytes follow the first of a character that is not ASCII; *low and *high bound the next
 * one, the rest are 80 to BF.
 */
static int follow(unsigned char first, unsigned char *low, unsigned char *high)
{
	*low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
	*high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
	if (first >= 0xc2 && first <= 0xdf)
		return 1;
	if (first >= 0xe0 && first <= 0xef)
		return 2;
	return first >= 0xf0 && first <= 0xf4 ? 3 : -1;
}

/* How many bytes at the beginning are whole words of ASCII: most texts are nothing else. */
static size_t ascii_words(const char *bytes, size_t length)
{
	uint64_t word;
	size_t i = 0;

	for (; length - i >= sizeof(word); i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word));
		if (word & UINT64_C(0x8080808080808080))
			break;
	}
	return i;
}

bool tek__is_utf8(const char *bytes, size_t length)
{
	unsigned char low, high;

	for (size_t i = ascii_words(bytes, length); i < length; i++) {
		if (!(bytes[i] & 0x80))
			continue;
		int more = follow((unsigned char)bytes[i], &low, &high);
		if (more < 0 || (size_t)more > length - i - 1)
			return false;
		for (; more > 0; more--) {
			unsigned char next = (unsigned char)bytes[++i];
			if (next < low || next > high)
				return false;
			low = 0x80;
			high = 0xbf;
		}
	}
	return true;
}
