/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A line of text, put together where snprintf(3) may not be called: in a signal handler. */
#ifndef TEK_BASE_LINE_H
#define TEK_BASE_LINE_H

#include <stddef.h>
#include <stdint.h>

/* Begins all zero. Text that does not fit is left out; there is always room for one more byte. */
struct tek_line {
	size_t length;
	char text[400];
};

void tek__line_add(struct tek_line *line, const char *text);
void tek__line_add_number(struct tek_line *line, uint64_t number);
void tek__line_add_hex(struct tek_line *line, uint64_t number);

#endif
