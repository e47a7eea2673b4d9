/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "exec/preload_list.h"

#include <stdbool.h>
#include <string.h>

static const char variable[] = "LD_PRELOAD=";

static bool is_preload(const char *entry)
{
	return strncmp(entry, variable, sizeof(variable) - 1) == 0;
}

/* Whether a word of LD_PRELOAD is one of TEK's libraries, wherever it lies. There is one of them in a program. */
static bool is_ours(const char *word, size_t length)
{
	static const char *const names[] = {"libtek.so", "libtek-uthread.so"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t size = strlen(names[i]);
		if (length >= size && memcmp(word + length - size, names[i], size) == 0 &&
		    (length == size || word[length - size - 1] == '/'))
			return true;
	}
	return false;
}

/* Copy an LD_PRELOAD entry with `other` for our words; false if no word is left. */
static bool copy_with_other(char *to, const char *entry, const char *other)
{
	const char *from = entry + sizeof(variable) - 1;
	bool any = false;

	memcpy(to, variable, sizeof(variable) - 1);
	to += sizeof(variable) - 1;
	while (*from) {
		size_t length = strcspn(from, ": ");
		const char *word = from;
		size_t bytes = length;
		if (length && is_ours(from, length)) {
			word = other;
			bytes = other ? strlen(other) : 0;
		}
		if (bytes) {
			if (any)
				*to++ = ':';
			memcpy(to, word, bytes);
			to += bytes;
			any = true;
		}
		from += length;
		if (*from)
			from++;
	}
	*to = '\0';
	return any;
}

static size_t count_ours(const char *entry)
{
	size_t count = 0;

	for (const char *word = entry + sizeof(variable) - 1; *word;) {
		size_t length = strcspn(word, ": ");
		count += is_ours(word, length);
		word += length;
		word += *word != '\0';
	}
	return count;
}

size_t tek__preload_list_size(char *const environment[], const char *other)
{
	const size_t more = other ? strlen(other) : 0;
	size_t entries = 0, text = 0;

	for (; environment && environment[entries]; entries++)
		if (is_preload(environment[entries]))
			text += strlen(environment[entries]) + 1 +
				more * count_ours(environment[entries]);
	return text ? (entries + 1) * sizeof(char *) + text : 0;
}

char *const *tek__preload_list_exchange(char *const environment[], const char *other, void *memory)
{
	char **result = memory;
	size_t entries = 0, kept = 0;

	while (environment[entries])
		entries++;
	char *text = (char *)(result + entries + 1);
	for (size_t i = 0; i < entries; i++) {
		if (!is_preload(environment[i])) {
			result[kept++] = environment[i];
		} else if (copy_with_other(text, environment[i], other)) {
			result[kept++] = text;
			text += strlen(text) + 1;
		}
	}
	result[kept] = NULL;
	return result;
}
