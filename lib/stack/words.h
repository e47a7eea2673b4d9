/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reading the words of a stack: of the calling thread's own directly, of another thread's by the
 * kernel. And the small arithmetic of addresses.
 */
#ifndef TEK_STACK_WORDS_H
#define TEK_STACK_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Up to `words` words from there on: `*count` of them, in memory that the next call may overwrite.
 * 0 of them: they are not to be read.
 */
typedef const uintptr_t *tek_words_reader(uintptr_t from, size_t words, size_t *count);

const uintptr_t *tek__words_own(uintptr_t from, size_t words, size_t *count);

/*
 * Of a thread of this process; in all only so many since tek__words_other_begin(). Needs the lock.
 */
const uintptr_t *tek__words_other(uintptr_t from, size_t words, size_t *count);
void tek__words_other_begin(void);

/* How many words from the first on have this value. */
size_t tek__words_same(const uintptr_t *words, size_t count, uintptr_t value);

/*
 * Whether the calling thread's stack can be touched there: the program may have forbidden it,
 * though hardly near to the frame that it is in.  Linux before 5.14 does not say; then yes.
 */
bool tek__words_can_read(uintptr_t low, uintptr_t end);
bool tek__words_can_write(uintptr_t low, uintptr_t end);

static inline uintptr_t tek__lower(uintptr_t one, uintptr_t other)
{
	return one < other ? one : other;
}

static inline uintptr_t tek__higher(uintptr_t one, uintptr_t other)
{
	return one > other ? one : other;
}

#endif
