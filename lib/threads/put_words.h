/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Stores into the thread table between the two writes of a sequence number (table_write.c). */
#ifndef TEK_THREADS_PUT_WORDS_H
#define TEK_THREADS_PUT_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* `to` is aligned, and `bytes` a multiple of 8. */
static inline void tek__put_words(void *to, const void *from, size_t bytes)
{
	/* Words of the processor: not every one of 32 bits can store 64 at once. */
	uintptr_t *target = to;
	for (size_t i = 0; i < bytes / sizeof(uintptr_t); i++) {
		uintptr_t word; /* a role need not be aligned */
		memcpy(&word, (const char *)from + i * sizeof(word), sizeof(word));
		__atomic_store_n(target + i, word, __ATOMIC_RELEASE);
	}
}

#endif
