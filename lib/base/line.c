/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/line.h"

/* A line feed always finds room. */
void tek__line_add(struct tek_line *line, const char *text)
{
	for (; *text; text++) {
		size_t most = sizeof(line->text) - (*text != '\n');
		if (line->length < most)
			line->text[line->length++] = *text;
	}
}

static void add(struct tek_line *line, uint64_t number, unsigned int base)
{
	char digits[21];
	char *at = &digits[sizeof(digits) - 1];

	*at = '\0';
	do {
		*--at = "0123456789abcdef"[number % base];
		number /= base;
	} while (number);
	tek__line_add(line, at);
}

void tek__line_add_number(struct tek_line *line, uint64_t number)
{
	add(line, number, 10);
}

void tek__line_add_hex(struct tek_line *line, uint64_t number)
{
	add(line, number, 16);
}
