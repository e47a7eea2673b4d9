/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/sanitizer.h"

#include "base/definition.h"

#include <stddef.h>

static const char *const symbols[] = {"__asan_init", "__tsan_init", "__msan_init"};
static bool loaded, in_program;

void tek__sanitizer_start(void)
{
	struct tek_definition ignored;

	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		const struct link_map *file = tek__defining_file(symbols[i], &ignored);
		loaded = loaded || file;
		/* The program itself is the first file. */
		in_program = in_program || (file && !file->l_prev);
	}
}

bool tek__sanitizer_is_loaded(void)
{
	return loaded;
}

bool tek__sanitizer_in_program(void)
{
	return in_program;
}

bool tek__sanitizer_of_threads(void)
{
	struct tek_definition ignored;

	return tek__defining_file("__tsan_init", &ignored) != NULL;
}
