/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/script.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The options of an interpreter, by letters. */
static const struct interpreter {
	const char *name;      /* the beginning of its file's name; versions follow */
	const char *arguments; /* options with an argument, joined to it or behind it */
	const char *code;      /* options with the program as their argument */
	const char *module;    /* options with the name of a module as their argument */
	const char *files; /* long options with an argument behind them, with commas around each */
} interpreters[] = {
	{"python", "WX", "c", "m", ",--check-hash-based-pycs,"},
	{"pypy", "WX", "c", "m", ","},
	{"perl", "I", "eE", "", ","},
	{"ruby", "ICrE", "e", "", ","},
	{"node", "rC", "ep", "", ",--require,--import,--loader,--experimental-loader,"},
	{"lua", "l", "e", "", ","},
	{"php", "dcz", "r", "", ","},
	{"tclsh", "", "", "", ",-encoding,"},
	{"guile", "Lls", "c", "", ","},
	{"bash", "oO", "c", "", ",--rcfile,--init-file,"},
	{"dash", "o", "c", "", ","},
	{"ksh", "o", "c", "", ","},
	{"zsh", "o", "c", "", ","},
	{"sh", "o", "c", "", ","},
};

/* Its name may have a version behind it: python3.11, lua5.4. */
static const struct interpreter *find(const char *program)
{
	const char *slash = strrchr(program, '/');
	const char *name = slash ? slash + 1 : program;

	for (size_t i = 0; i < sizeof(interpreters) / sizeof(interpreters[0]); i++) {
		const size_t length = strlen(interpreters[i].name);
		if (strncmp(name, interpreters[i].name, length) == 0 &&
		    name[length + strspn(name + length, "0123456789.-")] == '\0')
			return &interpreters[i];
	}
	return NULL;
}

static bool is_in(const char *list, const char *option)
{
	const size_t length = strlen(option);

	for (const char *at = list; (at = strstr(at, option)); at += length)
		if (at[-1] == ',' && at[length] == ',')
			return true;
	return false;
}

struct words {
	const char *at, *end;
};

/* NULL: there are no more. */
static const char *next(struct words *words)
{
	const char *word = words->at;

	if (word >= words->end)
		return NULL;
	words->at += strnlen(word, (size_t)(words->end - word)) + 1;
	return words->at <= words->end ? word : NULL; /* else it was cut */
}

static bool copy(const char *first, const char *second, char *script, size_t size)
{
	const size_t length = strlen(first), rest = second ? strlen(second) : 0;

	if (!second || length + rest >= size)
		return false;
	memcpy(script, first, length);
	memcpy(script + length, second, rest + 1);
	return true;
}

/*
 * An option of letters, as in -Bm or -cprint(1). True: it says what the program is; *known is
 * whether that is known.
 */
static bool is_program(const struct interpreter *interpreter, const char *letters,
		       struct words *words, char *script, size_t size, bool *known)
{
	for (; *letters; letters++) {
		const char *argument = letters[1] ? letters + 1 : NULL;
		if (strchr(interpreter->code, *letters)) {
			*known = copy("-c", "", script, size);
			return true;
		}
		if (strchr(interpreter->module, *letters)) {
			*known = copy("-m ", argument ? argument : next(words), script, size);
			return true;
		}
		if (strchr(interpreter->arguments, *letters)) {
			if (!argument)
				next(words);
			return false;
		}
	}
	return false;
}

bool tek__script_in(const char *program, const char *arguments, size_t bytes, char *script,
		    size_t size)
{
	const struct interpreter *interpreter = find(program);
	struct words words = {arguments, arguments + bytes};
	const char *word;
	bool known;

	if (!interpreter || !next(&words)) /* its own name */
		return false;
	while ((word = next(&words)) && word[0] == '-' && word[1]) {
		if (strcmp(word, "--") == 0) {
			word = next(&words);
			break;
		}
		if (is_in(interpreter->files, word))
			next(&words);
		else if (word[1] != '-' &&
			 is_program(interpreter, word + 1, &words, script, size, &known))
			return known;
	}
	return word && word[0] != '-' && copy("", word, script, size);
}

bool tek__script_of_process(const char *program, char *script, size_t size)
{
	char arguments[4096], path[PATH_MAX];

	if (!find(program))
		return false;
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	const ssize_t bytes = read(fd, arguments, sizeof(arguments));
	close(fd);
	if (bytes <= 0 || !tek__script_in(program, arguments, (size_t)bytes, script, size))
		return false;
	/* One that is found in a search path stays what was written. */
	if (script[0] != '-' && realpath(script, path) && strlen(path) < size)
		strcpy(script, path);
	return true;
}
