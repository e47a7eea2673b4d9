/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/cxx_name.h"

#include <stdbool.h>
#include <string.h>

enum {
	MAX_NAME = 4096,
	MAX_DEPTH = 64, /* of types within types */
	MAX_ELEMENTS = 16,
	MAX_SIZES = 32,
	UNKNOWN = 0, /* size of a type: a class */
};

/*
 * A class's name being read.  Types that were read can stand there again as `S_`, `S0_`, ...
 * by their number: their sizes are kept until a name with parts, which have numbers too,
 * makes the count uncertain.
 */
struct reader {
	const char *at;
	int depth;
	size_t sizes[MAX_SIZES];
	unsigned int count;
	bool uncertain;
};

static bool skip_type(struct reader *reader, size_t *size);

static bool take(struct reader *reader, const char *text)
{
	size_t length = strlen(text);
	if (strncmp(reader->at, text, length) != 0)
		return false;
	reader->at += length;
	return true;
}

static bool is_digit(char character)
{
	return character >= '0' && character <= '9';
}

/* Types up to the `E` behind them. */
static bool skip_types(struct reader *reader)
{
	size_t size;
	while (!take(reader, "E"))
		if (!skip_type(reader, &size))
			return false;
	return true;
}

/* <source-name>: a length and as many characters. */
static bool skip_name(struct reader *reader)
{
	size_t length = 0;

	while (is_digit(*reader->at) && length < MAX_NAME)
		length = length * 10 + (size_t)(*reader->at++ - '0');
	if (length == 0 || strnlen(reader->at, length) < length)
		return false;
	reader->at += length;
	return true;
}

/* Behind `S`: the number of a type that was there before, in base 36 and one late, and `_`. */
static bool skip_number(struct reader *reader, size_t *size)
{
	unsigned int number = 0;

	while (is_digit(*reader->at) || (*reader->at >= 'A' && *reader->at <= 'Z')) {
		char digit = *reader->at++;
		number = number * 36 +
			 (unsigned int)(is_digit(digit) ? digit - '0' : digit - 'A' + 10);
		if (number > MAX_SIZES)
			return false;
		if (*reader->at == '_')
			number++;
	}
	if (!reader->uncertain && number < reader->count)
		*size = reader->sizes[number];
	return take(reader, "_");
}

/* Behind `S`: the same, or a name in std, such as `St6thread` and `Ss`. */
static bool skip_substitution(struct reader *reader, size_t *size)
{
	if (*reader->at < 'a' || *reader->at > 'z')
		return skip_number(reader, size);
	reader->uncertain = true;
	if (take(reader, "t"))
		return skip_name(reader);
	reader->at++;
	return true;
}

/* <nested-name> behind its `N`. */
static bool skip_nested(struct reader *reader)
{
	size_t size;

	reader->uncertain = true;
	while (!take(reader, "E")) {
		bool good = is_digit(*reader->at) ? skip_name(reader)
			    : take(reader, "S")   ? skip_substitution(reader, &size)
			    : take(reader, "I")   ? skip_types(reader)
						  : take(reader, "K");
		if (!good)
			return false;
	}
	return true;
}

/* Qualifiers, and what an exception specification puts before a function's `F`. */
static void skip_qualifiers(struct reader *reader)
{
	while (take(reader, "K") || take(reader, "V") || take(reader, "Do"))
		reader->uncertain = true;
}

/* By its letter; those of more than a word are only known not to be classes. */
static bool skip_builtin(struct reader *reader, size_t *size)
{
	static const char letters[] = "bcahstijlmxyfdw";
	static const unsigned char sizes[] = {
		sizeof(bool),
		1,
		1,
		1,
		sizeof(short),
		sizeof(short),
		sizeof(int),
		sizeof(int),
		sizeof(long),
		sizeof(long),
		sizeof(long long),
		sizeof(long long),
		sizeof(float),
		sizeof(double),
		sizeof(wchar_t),
	};
	const char *letter = *reader->at ? strchr(letters, *reader->at) : NULL;

	if (letter)
		*size = sizes[letter - letters];
	else if (!strchr("vneog", *reader->at) || !*reader->at)
		return false;
	reader->at++;
	return true;
}

/* Skip what stands behind the letter that was just taken. */
static bool skip_inner(struct reader *reader)
{
	size_t size;
	return skip_type(reader, &size);
}

/* Skips a type that is neither a builtin letter nor a substitution. */
static bool skip_compound(struct reader *reader, size_t *size)
{
	if (take(reader, "P") || take(reader, "R") || take(reader, "O")) {
		*size = sizeof(void *);
		return skip_inner(reader);
	}
	if (take(reader, "M")) {
		if (!skip_inner(reader))
			return false;
		skip_qualifiers(reader);
		*size = *reader->at == 'F' ? 2 * sizeof(void *) : sizeof(ptrdiff_t);
		return skip_inner(reader);
	}
	if (take(reader, "F"))
		return skip_types(reader);
	if (take(reader, "N"))
		return skip_nested(reader);
	if (take(reader, "St17reference_wrapperI")) {
		reader->uncertain = true;
		*size = sizeof(void *);
		return skip_types(reader);
	}
	if (!skip_name(reader))
		return false;
	if (!take(reader, "I"))
		return true;
	reader->uncertain = true;
	return skip_types(reader);
}

static void remember(struct reader *reader, size_t size)
{
	if (reader->count == MAX_SIZES)
		reader->uncertain = true;
	else
		reader->sizes[reader->count++] = size;
}

/* One <type>. False if it is not understood. */
static bool skip_type(struct reader *reader, size_t *size)
{
	*size = UNKNOWN;
	skip_qualifiers(reader);
	if (skip_builtin(reader, size))
		return true;
	if (take(reader, "Dn")) { /* of nullptr */
		*size = sizeof(void *);
		return true;
	}
	if (reader->at[0] == 'S' && strncmp(reader->at, "St17r", 5) != 0) {
		reader->at++;
		return skip_substitution(reader, size) &&
		       (!take(reader, "I") || skip_types(reader));
	}
	if (reader->depth == MAX_DEPTH)
		return false;
	reader->depth++;
	bool good = skip_compound(reader, size);
	reader->depth--;
	remember(reader, *size);
	return good;
}

/* The sizes of a tuple's elements up to the `E` behind them; -1 if one is not known. */
static int read_elements(struct reader *reader, size_t sizes[MAX_ELEMENTS])
{
	int count = 0;
	while (!take(reader, "E")) {
		if (count == MAX_ELEMENTS || !skip_type(reader, &sizes[count]) ||
		    sizes[count] == UNKNOWN)
			return -1;
		count++;
	}
	return count;
}

size_t tek__cxx_function_offset(const char *class_name)
{
	/* std::thread, its _State_impl and _Invoker, and std::tuple have the first numbers. */
	struct reader reader = {.at = class_name, .count = 4};
	size_t sizes[MAX_ELEMENTS];
	size_t offset = sizeof(void *); /* behind the address of the vtable */

	take(&reader, "*"); /* the name of a type that only its own file knows */
	if (!take(&reader, "NSt6thread11_State_implINS_8_InvokerISt5tupleIJ"))
		return 0;
	bool runs_function = strncmp(reader.at, "PF", 2) == 0 ||
			     strncmp(reader.at, "PDoF", 4) == 0 || *reader.at == 'M';
	int count = runs_function ? read_elements(&reader, sizes) : -1;
	/* A tuple of this library has its last element first, and the function is its first. */
	for (int i = count - 1; i > 0; i--) {
		size_t alignment = sizes[i] < sizeof(void *) ? sizes[i] : sizeof(void *);
		offset = (offset + alignment - 1) / alignment * alignment + sizes[i];
	}
	return count < 1 ? 0 : (offset + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
}
