/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/profile.h"

#include "ident/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char first_line[] = "tek-stack-profile 1";

/* Text that ends before `end`, and has no NUL there. */
struct span {
	const char *at, *end;
};

static size_t length(struct span span)
{
	return (size_t)(span.end - span.at);
}

static bool is(struct span span, const char *word)
{
	return length(span) == strlen(word) && memcmp(span.at, word, length(span)) == 0;
}

static bool begins(struct span *span, const char *word)
{
	if (length(*span) < strlen(word) || memcmp(span->at, word, strlen(word)) != 0)
		return false;
	span->at += strlen(word);
	return true;
}

/* What is before the next such byte, which is dropped, or all; *rest is what follows. */
static struct span split(struct span *rest, char separator)
{
	struct span first = *rest;
	const char *found = first.at == first.end ? NULL
						  : memchr(first.at, separator, length(first));

	if (found)
		first.end = found;
	rest->at = found ? found + 1 : rest->end;
	return first;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A percent sequence may have capital letters, as everywhere. */
static int percent_digit(char c)
{
	return hex_digit(c >= 'A' && c <= 'F' ? (char)(c - 'A' + 'a') : c);
}

/*
 * Percent sequences decoded, into at most `size` bytes with a NUL behind them; to may be NULL.
 * False if it does not fit or is not well encoded.
 */
static bool decode(struct span text, char *to, size_t size)
{
	size_t count = 0;

	while (text.at < text.end) {
		unsigned char byte = (unsigned char)*text.at++;
		if (byte <= ' ' || byte == 0x7f)
			return false;
		if (byte == '%') {
			if (length(text) < 2 || percent_digit(text.at[0]) < 0 ||
			    percent_digit(text.at[1]) < 0)
				return false;
			byte = (unsigned char)(percent_digit(text.at[0]) << 4 |
					       percent_digit(text.at[1]));
			text.at += 2;
			if (!byte)
				return false;
		}
		if (to && count + 1 >= size)
			return false;
		if (to)
			to[count] = (char)byte;
		count++;
	}
	if (to)
		to[count] = '\0';
	return true;
}

static bool parse_number(struct span text, uint64_t *number)
{
	*number = 0;
	if (text.at == text.end)
		return false;
	for (; text.at < text.end; text.at++) {
		if (*text.at < '0' || *text.at > '9' ||
		    __builtin_mul_overflow(*number, 10, number) ||
		    __builtin_add_overflow(*number, (uint64_t)(*text.at - '0'), number))
			return false;
	}
	return true;
}

static bool parse_size(struct span text, uint64_t *bytes)
{
	return parse_number(text, bytes) && *bytes <= TEK_PROFILE_MOST_STACK;
}

static bool parse_build_id(struct span text, char *to)
{
	enum { MOST_DIGITS = 40 };

	if (length(text) < 2 || length(text) > MOST_DIGITS || length(text) % 2)
		return false;
	for (; text.at < text.end; text.at++) {
		if (hex_digit(*text.at) < 0)
			return false;
		*to++ = *text.at;
	}
	*to = '\0';
	return true;
}

static bool parse_place(struct span text, struct tek_place *place)
{
	/* The last one: names of files may have it too. */
	const char *plus = memrchr(text.at, '+', length(text));
	if (!plus)
		return false;
	struct span module = {text.at, plus}, offset = {plus + 1, text.end};
	bool is_name = length(module) && module.at[0] == '@';

	if (is_name ? !decode(module, place->module, sizeof(place->module)) || !place->module[1]
		    : !parse_build_id(module, place->module))
		return false;
	if (!begins(&offset, "0x") || length(offset) < 1 || length(offset) > 16)
		return false;
	place->offset = 0;
	for (; offset.at < offset.end; offset.at++) {
		if (hex_digit(*offset.at) < 0)
			return false;
		place->offset = place->offset << 4 | (unsigned int)hex_digit(*offset.at);
	}
	return true;
}

static bool check_label(struct span text)
{
	char label[64];

	return is(text, "-") || ((begins(&text, "name:") || begins(&text, "role:")) &&
				 decode(text, label, sizeof(label)));
}

enum key { FUNCTION, CALLER, LABEL, BOUND, PEAK, STACK, OVERFLOW, OVERFLOWS, THREADS, RUNS, KEYS };
static const char *const keys[KEYS] = {
	[FUNCTION] = "function", [CALLER] = "caller",       [LABEL] = "label",
	[BOUND] = "bound",       [PEAK] = "peak",           [STACK] = "stack",
	[OVERFLOW] = "overflow", [OVERFLOWS] = "overflows", [THREADS] = "threads",
	[RUNS] = "runs",
};
enum { REQUIRED = 1 << FUNCTION | 1 << BOUND | 1 << THREADS };

/* What is not needed here is read all the same: `tek` would find the line damaged. */
static bool parse_value(struct tek_learnt *learnt, enum key key, struct span value)
{
	uint64_t unused;

	switch (key) {
	case FUNCTION:
		return parse_place(value, &learnt->function);
	case CALLER:
		return is(value, "-") || parse_place(value, &learnt->caller);
	case LABEL:
		return check_label(value);
	case BOUND:
		return parse_size(value, &learnt->bound_bytes);
	case OVERFLOW:
		return parse_size(value, &learnt->overflow_bytes);
	case THREADS:
		return parse_number(value, &learnt->threads);
	case PEAK:
	case STACK:
	case OVERFLOWS:
	case RUNS:
		return parse_number(value, &unused);
	case KEYS:
		break;
	}
	return decode(value, NULL, 0);
}

static bool parse_kind(struct span line, struct tek_learnt *learnt)
{
	unsigned int seen = 0;

	*learnt = (struct tek_learnt){0};
	if (!tek__is_utf8(line.at, length(line)) || line.end[-1] == ' ')
		return false;
	while (line.at < line.end) {
		struct span value = split(&line, ' ');
		const char *equals = memchr(value.at, '=', length(value));
		if (!equals || equals == value.at)
			return false;
		struct span name = {value.at, equals};
		value.at = equals + 1;
		unsigned int key = 0;
		while (key < KEYS && !is(name, keys[key]))
			key++;
		if (key < KEYS && seen & 1u << key)
			return false;
		seen |= 1u << key;
		if (!decode(name, NULL, 0) || !parse_value(learnt, key, value))
			return false;
	}
	return (seen & REQUIRED) == REQUIRED;
}

bool tek__profile_parse(const char *text, size_t bytes,
			void (*visit)(const struct tek_learnt *, void *), void *context)
{
	struct span rest = {text, text + bytes};
	struct tek_learnt learnt;

	if (bytes > TEK_PROFILE_MOST_BYTES || !is(split(&rest, '\n'), first_line))
		return false;
	for (unsigned int kinds = 0; rest.at < rest.end && kinds < TEK_PROFILE_MOST_KINDS;) {
		struct span line = split(&rest, '\n');
		if (!begins(&line, "kind ") || !length(line) || !parse_kind(line, &learnt))
			continue;
		kinds++;
		visit(&learnt, context);
	}
	return true;
}

static bool is_trusted(const struct stat *status)
{
	return S_ISREG(status->st_mode) && (status->st_mode & 022) == 0 &&
	       (status->st_uid == 0 || status->st_uid == geteuid()) && status->st_size > 0 &&
	       status->st_size <= TEK_PROFILE_MOST_BYTES;
}

/* The whole of it, which may have become shorter since; its length. */
static size_t read_all(int fd, char *to, size_t size)
{
	size_t length = 0;

	while (length < size) {
		ssize_t got = read(fd, to + length, size - length);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		length += (size_t)got;
	}
	return length;
}

bool tek__profile_read(const char *path, void (*visit)(const struct tek_learnt *, void *),
		       void *context)
{
	struct stat status;
	bool is_profile = false;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return false;
	if (fstat(fd, &status) == 0 && is_trusted(&status)) {
		size_t size = (size_t)status.st_size;
		/* Not mapped: who shortens a mapped file kills its reader. */
		char *text = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				  -1, 0);
		if (text != MAP_FAILED) {
			is_profile = tek__profile_parse(text, read_all(fd, text, size), visit,
							context);
			munmap(text, size);
		}
	}
	close(fd);
	return is_profile;
}
