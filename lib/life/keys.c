/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "life/keys.h"

#include "base/definition.h"
#include "base/real.h"

#include <limits.h>

enum { WORD_BITS = 8 * sizeof(unsigned long) };

/* A bit for each key. One of a key that was deleted stays: it has no values. */
static unsigned long noted[(PTHREAD_KEYS_MAX + WORD_BITS - 1) / WORD_BITS];

/* The program's calls of pthread_key_create() come to us. */
static bool all_pass_here;

void tek__keys_note(pthread_key_t key)
{
	if (key < PTHREAD_KEYS_MAX)
		__atomic_fetch_or(&noted[key / WORD_BITS], 1ul << key % WORD_BITS,
				  __ATOMIC_RELAXED);
}

void tek__keys_start(void)
{
	struct tek_definition first;

	all_pass_here = tek__defining_file("pthread_key_create", &first) &&
			first.address != (void *)tek__real.pthread_key_create;
}

bool tek__keys_have_values(void)
{
	if (!all_pass_here)
		return true;
	for (unsigned int i = 0; i < sizeof(noted) / sizeof(noted[0]); i++) {
		unsigned long word = __atomic_load_n(&noted[i], __ATOMIC_RELAXED);
		for (; word; word &= word - 1) {
			unsigned int key = i * WORD_BITS + (unsigned int)__builtin_ctzl(word);
			if (pthread_getspecific(key))
				return true;
		}
	}
	return false;
}
