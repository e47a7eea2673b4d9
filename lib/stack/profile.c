/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/profile.h"

#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char first_line[] = "tek-stack-profile 1";

/* Text from `at` up to, not with, `end`. */
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

/*
 * Splits *rest at the first `separator`: *first is the text before it, *rest the text behind it.
 * False if *rest has no separator; then nothing is changed.
 */
static bool split(struct span *rest, char separator, struct span *first)
{
	const char *found = length(*rest) ? memchr(rest->at, separator, length(*rest)) : NULL;

	if (!found)
		return false;
	*first = (struct span){rest->at, found};
	rest->at = found + 1;
	return true;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/*
 * Percent sequences decoded, into at most `size` bytes with a NUL behind them; to may be NULL.
 * False if that is too few, if there is a NUL, or if a % has no two digits.
 */
static bool decode(struct span text, char *to, size_t size)
{
	size_t count = 0;

	while (text.at < text.end) {
		unsigned char byte = (unsigned char)*text.at++;
		if (byte == '%') {
			if (length(text) < 2 || hex_digit(text.at[0]) < 0 ||
			    hex_digit(text.at[1]) < 0)
				return false;
			byte = (unsigned char)(hex_digit(text.at[0]) << 4 | hex_digit(text.at[1]));
			text.at += 2;
		}
		if (!to)
			continue;
		if (!byte || count + 1 >= size)
			return false;
		to[count++] = (char)byte;
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

/* A size that is too much for any stack counts as the most. */
static bool parse_size(struct span text, uint64_t *bytes)
{
	if (!parse_number(text, bytes))
		return false;
	if (*bytes > TEK_PROFILE_MOST_STACK)
		*bytes = TEK_PROFILE_MOST_STACK;
	return true;
}

static bool is_module(const char *name)
{
	if (name[0] == '@')
		return name[1] && tek__is_utf8(name, strlen(name));
	return name[0] && name[strspn(name, "0123456789abcdefABCDEF")] == '\0';
}

static bool parse_place(struct span text, struct tek_place *place)
{
	/* The last one: names of files may have it too. */
	const char *plus = length(text) ? memrchr(text.at, '+', length(text)) : NULL;
	if (!plus)
		return false;
	struct span module = {text.at, plus}, offset = {plus + 1, text.end};

	if (!decode(module, place->module, sizeof(place->module)) || !is_module(place->module) ||
	    !begins(&offset, "0x") || length(offset) < 1 || length(offset) > 16)
		return false;
	place->offset = 0;
	for (; offset.at < offset.end; offset.at++) {
		if (hex_digit(*offset.at) < 0)
			return false;
		place->offset = place->offset << 4 | (unsigned int)hex_digit(*offset.at);
	}
	return true;
}

/* A label of another sort is as good as none: a later version may know it. */
static bool parse_label(struct span text, struct tek_label *label)
{
	*label = (struct tek_label){.is = TEK_LABEL_NONE};
	if (begins(&text, "name:"))
		label->is = TEK_LABEL_NAME;
	else if (begins(&text, "role:"))
		label->is = TEK_LABEL_ROLE;
	else
		return true;
	if (!decode(text, NULL, 0))
		return false;
	if (!decode(text, label->text, sizeof(label->text)))
		label->is = TEK_LABEL_TOO_LONG;
	return true;
}

enum key {
	FUNCTION,
	CALLER,
	LABEL,
	BOUND,
	LEAST,
	PEAK,
	STACK,
	OVERFLOW,
	OVERFLOWS,
	THREADS,
	RUNS,
	SYMBOL,
	IN,
	FROM,
	KEYS, /* any other */
};
static const char *const keys[KEYS] = {
	[FUNCTION] = "function",
	[CALLER] = "caller",
	[LABEL] = "label",
	[BOUND] = "bound",
	[LEAST] = "least",
	[PEAK] = "peak",
	[STACK] = "stack",
	[OVERFLOW] = "overflow",
	[OVERFLOWS] = "overflows",
	[THREADS] = "threads",
	[RUNS] = "runs",
	[SYMBOL] = "symbol",
	[IN] = "in",
	[FROM] = "from",
};
enum { REQUIRED = 1 << FUNCTION | 1 << BOUND | 1 << THREADS };

/* Unneeded keys are parsed all the same: `tek` would find the line damaged. */
static bool parse_value(struct tek_learnt *learnt, enum key key, struct span value)
{
	uint64_t unused;

	switch (key) {
	case FUNCTION:
		return parse_place(value, &learnt->function);
	case CALLER:
		return is(value, "-") || parse_place(value, &learnt->caller);
	case LABEL:
		return parse_label(value, &learnt->label);
	case BOUND:
		return parse_size(value, &learnt->bound_bytes);
	case LEAST:
		return parse_size(value, &learnt->least_bytes);
	case PEAK:
		return parse_size(value, &learnt->peak_bytes);
	case OVERFLOW:
		return parse_size(value, &learnt->overflow_bytes);
	case THREADS:
		return parse_number(value, &learnt->threads);
	case RUNS:
		return parse_number(value, &learnt->runs);
	case STACK:
	case OVERFLOWS:
		return parse_number(value, &unused);
	case SYMBOL:
	case IN:
	case FROM:
		return decode(value, NULL, 0);
	case KEYS:
		break;
	}
	return true;
}

static bool parse_field(struct tek_learnt *learnt, struct span field, unsigned int *seen)
{
	struct span name;
	unsigned int key = 0;

	if (!split(&field, '=', &name) || !length(name))
		return false;
	while (key < KEYS && !is(name, keys[key]))
		key++;
	if (key < KEYS && *seen & 1u << key)
		return false;
	*seen |= 1u << key;
	return parse_value(learnt, key, field);
}

static bool parse_kind(struct span line, struct tek_learnt *learnt)
{
	unsigned int seen = 0;
	struct span field;

	*learnt = (struct tek_learnt){0};
	while (split(&line, ' ', &field))
		if (!parse_field(learnt, field, &seen))
			return false;
	return parse_field(learnt, line, &seen) && (seen & REQUIRED) == REQUIRED;
}

bool tek__profile_parse(const char *text, size_t bytes,
			void (*visit)(const struct tek_learnt *, void *), void *context)
{
	struct span rest = {text, text + bytes}, line;
	struct tek_learnt learnt;
	unsigned int kinds = 0;

	if (bytes > TEK_PROFILE_MOST_BYTES || !split(&rest, '\n', &line) || !is(line, first_line))
		return false;
	/* A line without an end was cut short: even a number may lack its last digits. */
	while (kinds < TEK_PROFILE_MOST_KINDS && split(&rest, '\n', &line)) {
		if (!begins(&line, "kind ") || !parse_kind(line, &learnt))
			continue;
		kinds++;
		visit(&learnt, context);
	}
	return true;
}

static bool is_ours_alone(int fd, struct stat *status)
{
	return fstat(fd, status) == 0 && (status->st_mode & 022) == 0 &&
	       (status->st_uid == 0 || status->st_uid == geteuid());
}

/* Or -1, if it or its directory is not to be trusted. */
static int open_trusted(const char *path, struct stat *status)
{
	const char *slash = strrchr(path, '/');
	char directory[PATH_MAX];

	if (!slash || (size_t)(slash - path) >= sizeof(directory) - 1)
		return -1;
	memcpy(directory, path, (size_t)(slash - path) + 1);
	directory[slash - path + 1] = '\0';
	int within = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (within < 0)
		return -1;
	int fd = !is_ours_alone(within, status)
			 ? -1
			 : openat(within, slash + 1,
				  O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	close(within);
	if (fd >= 0 && !(is_ours_alone(fd, status) && S_ISREG(status->st_mode))) {
		close(fd);
		return -1;
	}
	return fd;
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
	int fd = open_trusted(path, &status);

	if (fd < 0)
		return false;
	if (status.st_size > 0 && status.st_size <= TEK_PROFILE_MOST_BYTES) {
		size_t size = (size_t)status.st_size;
		/* Not mapped: shortening a mapped file kills its reader. */
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
