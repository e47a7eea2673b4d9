/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reads the files of tests/vectors, as tests/vectors/reader.rs does: cases that C and Rust judge
 * alike.
 */
#ifndef TEK_TESTS_VECTORS_H
#define TEK_TESTS_VECTORS_H

#include "support.h"

enum { VECTOR_WORDS = 16 };

struct vector {
	const char *file;
	unsigned int line;
	unsigned int count;
	const char *words[VECTOR_WORDS + 1]; /* "" behind the last one */
};

/* Fails the test, and names the line. */
#define vector_fail(vector, format, ...) \
	fail_msg("tests/vectors/%s:%u: " format, (vector)->file, (vector)->line, ##__VA_ARGS__)
#define vector_assert(vector, condition) \
	do { \
		if (!(condition)) \
			vector_fail(vector, "%s", #condition); \
	} while (0)

static inline bool vector_is(const struct vector *vector, const char *first)
{
	return strcmp(vector->words[0], first) == 0;
}

/* One character of a word in quotes. */
static inline char vector_escaped(const char **text)
{
	const char c = *(*text)++;
	char digits[3] = "";

	if (c != '\\')
		return c;
	const char escaped = *(*text)++;
	if (escaped == 'n')
		return '\n';
	if (escaped == 't')
		return '\t';
	if (escaped != 'x')
		return escaped;
	memcpy(digits, *text, 2);
	*text += 2;
	return (char)strtoul(digits, NULL, 16);
}

/* Replaces the words in `line` by what they stand for. */
static inline void vector_split(struct vector *vector, char *line)
{
	const char *text = line + strspn(line, " ");

	vector->count = 0;
	for (char *to = line; *text; text += strspn(text, " ")) {
		const bool quoted = *text == '"';
		vector_assert(vector, vector->count < VECTOR_WORDS);
		vector->words[vector->count++] = to;
		for (text += quoted; *text && *text != (quoted ? '"' : ' ');)
			*to++ = quoted ? vector_escaped(&text) : *text++;
		vector_assert(vector, !quoted || *text);
		text += *text != '\0'; /* a zero takes its place */
		*to++ = '\0';
	}
	for (unsigned int i = vector->count; i <= VECTOR_WORDS; i++)
		vector->words[i] = "";
}

/* Calls `check` for each line of a file. */
static inline void for_each_vector(const char *name, void (*check)(const struct vector *vector))
{
	struct vector vector = {.file = name};
	unsigned int checked = 0;
	char path[PATH_MAX], line[1024];

	snprintf(path, sizeof(path), "%s/%s", VECTORS, name);
	FILE *file = fopen(path, "r");
	if (!file)
		fail_msg("%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		vector.line++;
		if (line[0] == '#')
			continue;
		vector_assert(&vector, strchr(line, '\n'));
		line[strcspn(line, "\n")] = '\0';
		vector_split(&vector, line);
		if (vector.count == 0)
			continue;
		check(&vector);
		checked++;
	}
	fclose(file);
	assert_true(checked > 0);
}

#endif
