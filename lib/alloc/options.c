/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "alloc/options.h"

#include "base/parse.h"
#include "tek_options.h"

#include <string.h>

static bool parse_unit(const char **text, uint64_t *scale)
{
	static const struct {
		const char *name;
		uint64_t scale;
	} units[] = {{"K", UINT64_C(1) << 10}, {"M", UINT64_C(1) << 20}, {"G", UINT64_C(1) << 30}};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (tek__parse_word(text, units[i].name)) {
			*scale = units[i].scale;
			return true;
		}
	}
	*scale = 1;
	return **text == '\0';
}

static const uint64_t most = SIZE_MAX > UINT32_MAX ? TEK_POOL_MOST : TEK_POOL_MOST_32;

enum kind {
#define KIND(kind, name, about) kind,
	TEK_ALLOC_KINDS(KIND)
#undef KIND
		KINDS
};

static const char *const names[KINDS] = {
#define NAME(kind, name, about) [kind] = name,
	TEK_ALLOC_KINDS(NAME)
#undef NAME
};

bool tek_alloc__options_parse(struct tek_alloc_options *options, const char *text)
{
	uint64_t number, scale;

	if (strcmp(text, names[TLSF]) == 0) {
		options->pool = 0;
		return true;
	}
	if (!tek__parse_word(&text, names[POOL]) || !tek__parse_word(&text, "=") ||
	    !tek__parse_number(&text, most, &number) || !parse_unit(&text, &scale) || *text ||
	    number > most / scale || number * scale < TEK_POOL_LEAST)
		return false;
	options->pool = (size_t)(number * scale);
	return true;
}
