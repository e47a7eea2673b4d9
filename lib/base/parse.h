/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The parsers that the variables of the environment share.  Each parses the beginning of *text and
 * moves *text behind the parsed part.  False: the text has another form; the result is unchanged.
 */
#ifndef TEK_BASE_PARSE_H
#define TEK_BASE_PARSE_H

#include "tek_options.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The CPU time that a Fast thread may use in each window. A rule's budget has fixed windows, one
 * after the other. For the budget of the process each interval of that length is a window.
 */
struct tek_budget {
	uint64_t cpu_ns; /* 0: no limit */
	uint64_t window_ns;
};

/* Exactly that word. */
bool tek__parse_word(const char **text, const char *word);

/* A decimal number without sign, not above max. */
bool tek__parse_number(const char **text, uint64_t max, uint64_t *value);

/* -20 to 19. */
bool tek__parse_nice(const char **text, signed char *nice);

/* The name of a group: TEK_GROUP_*. */
bool tek__parse_group(const char **text, unsigned char *group);

/* CPU/WINDOW, or off, which leaves the window as it was. */
bool tek__parse_budget(const char **text, struct tek_budget *budget);

#endif
