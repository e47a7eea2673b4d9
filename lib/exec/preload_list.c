/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "exec/preload_list.h"

#include "exec/target.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static const char variable[] = "LD_PRELOAD=";

static bool is_preload(const char *entry)
{
	return strncmp(entry, variable, sizeof(variable) - 1) == 0;
}

/* The file's name in a word of LD_PRELOAD. */
static const char *name_in(const char *word, size_t length)
{
	const char *slash = memrchr(word, '/', length);
	return slash ? slash + 1 : word;
}

/*
 * The name in a list, which NULL ends, that the file in a word of LD_PRELOAD has, wherever it lies;
 * or NULL.
 */
static const char *named(const char *const names[], const char *word, size_t length)
{
	const char *name = name_in(word, length);
	const size_t size = length - (size_t)(name - word);

	for (; *names; names++) {
		const size_t known = strlen(*names);
		/* An entry that ends with a star is the beginning of a name. */
		const bool begins = (*names)[known - 1] == '*';
		if ((begins ? size >= known - 1 : size == known) &&
		    memcmp(name, *names, known - begins) == 0)
			return *names;
	}
	return NULL;
}

/* TEK's libraries, at most one of which is in a program. */
static const char *const ours[] = {"libtek.so", "libtek.so.*", "libtek-uthread.so", NULL};

/*
 * The libraries that `tek run --alloc` and `--libm` or `tek profile` preload: for the same kind of
 * programs only. The allocators are those of crates/tek/src/run/libraries.rs;
 * lib/uthread/sections.c has them among more.
 */
static const char *const companions[] = {"libtek-alloc.so*",
					 "libtek-libm-*",
					 "libtek-profile.so*",
					 "libmimalloc.so*",
					 "libjemalloc.so*",
					 "libtcmalloc*",
					 NULL};

/*
 * Libraries of TEK that are removed with libtek.so. Where another file replaces libtek.so, those of
 * these names in its directory replace them.
 */
static const char *const along_with_us[] = {"libtek-rtfifo.so", "libtek-sync.so", NULL};

/* The path that `tek run --libm` preloaded; NULL: none. */
static const char *libm_of(char *const environment[])
{
	static const char libm[] = "TEK_LIBM=";

	for (; *environment; environment++)
		if (strncmp(*environment, libm, sizeof(libm) - 1) == 0)
			return *environment + sizeof(libm) - 1;
	return NULL;
}

static bool is_companion(const char *word, size_t length, const char *libm)
{
	return named(companions, word, length) ||
	       (libm && strlen(libm) == length && memcmp(word, libm, length) == 0);
}

/*
 * Its sibling in the directory of `other`, if there is one, to `to`. Returns its length, 0: none.
 */
static size_t copy_sibling(char *to, const char *name, const char *other)
{
	const char *slash = other ? strrchr(other, '/') : NULL;

	if (!slash)
		return 0;
	size_t directory = (size_t)(slash + 1 - other);
	memcpy(to, other, directory);
	strcpy(to + directory, name);
	return access(to, F_OK) == 0 ? directory + strlen(name) : 0;
}

/* Copy an LD_PRELOAD entry with `other` for our words; false if no word is left. */
static bool copy_with_other(char *to, const char *entry, const char *other, const char *libm)
{
	const char *from = entry + sizeof(variable) - 1;
	bool any = false;

	memcpy(to, variable, sizeof(variable) - 1);
	to += sizeof(variable) - 1;
	while (*from) {
		size_t length = strcspn(from, ": ");
		const char *word = from;
		size_t bytes = length;
		const char *along = named(along_with_us, from, length);
		if (named(ours, from, length)) {
			word = other;
			bytes = other ? strlen(other) : 0;
		} else if (along) {
			word = to + any;
			bytes = copy_sibling(to + any, along, other);
		} else if (is_companion(from, length, libm)) {
			bytes = 0;
		}
		if (bytes) {
			if (any)
				*to++ = ':';
			memmove(to, word, bytes);
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

/* The name of a library that is left out; NULL: it, or its sibling, is there. */
static const char *left_out(const char *word, size_t length, const char *other, const char *libm)
{
	char path[TEK_TARGET_PATH_BYTES + 32];
	const char *along = named(along_with_us, word, length);

	if (along)
		return copy_sibling(path, along, other) ? NULL : name_in(word, length);
	return is_companion(word, length, libm) ? name_in(word, length) : NULL;
}

bool tek__preload_list_lacks(char *const environment[], const char *other, char *names, size_t size)
{
	const char *libm = libm_of(environment);
	size_t used = 0;

	for (; *environment; environment++) {
		const char *word = is_preload(*environment) ? *environment + sizeof(variable) - 1
							    : "";
		while (*word) {
			const size_t length = strcspn(word, ": ");
			const char *name = left_out(word, length, other, libm);
			const size_t bytes = name ? (size_t)(word + length - name) : 0;
			if (bytes && used + bytes + 3 <= size) {
				if (used)
					names[used++] = ',', names[used++] = ' ';
				memcpy(names + used, name, bytes);
				used += bytes;
			}
			word += length;
			word += *word != '\0';
		}
	}
	names[used] = '\0';
	return used > 0;
}

/* Of words that may become longer. */
static size_t count_ours(const char *entry)
{
	size_t count = 0;

	for (const char *word = entry + sizeof(variable) - 1; *word;) {
		size_t length = strcspn(word, ": ");
		count += named(ours, word, length) || named(along_with_us, word, length);
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

/* Copy an LD_PRELOAD entry without a library; false if no word is left. */
static bool copy_without(char *to, const char *entry, const char *name)
{
	const char *const names[] = {name, NULL};
	const char *from = entry + sizeof(variable) - 1;
	bool any = false;

	to = mempcpy(to, variable, sizeof(variable) - 1);
	while (*from) {
		size_t length = strcspn(from, ": ");
		if (length && !named(names, from, length)) {
			if (any)
				*to++ = ':';
			to = mempcpy(to, from, length);
			any = true;
		}
		from += length;
		from += *from != '\0';
	}
	*to = '\0';
	return any;
}

/* Without the library of that name; or, if that is NULL, with `other` for ours. */
static char *const *rebuild(char *const environment[], const char *name, const char *other,
			    void *memory)
{
	const char *libm = libm_of(environment);
	char **result = memory;
	size_t entries = 0, retained = 0;

	while (environment[entries])
		entries++;
	char *text = (char *)(result + entries + 1);
	for (size_t i = 0; i < entries; i++) {
		if (!is_preload(environment[i])) {
			result[retained++] = environment[i];
		} else if (name ? copy_without(text, environment[i], name)
				: copy_with_other(text, environment[i], other, libm)) {
			result[retained++] = text;
			text += strlen(text) + 1;
		}
	}
	result[retained] = NULL;
	return result;
}

char *const *tek__preload_list_exchange(char *const environment[], const char *other, void *memory)
{
	return rebuild(environment, NULL, other, memory);
}

char *const *tek__preload_list_without(char *const environment[], const char *name, void *memory)
{
	return rebuild(environment, name, NULL, memory);
}
