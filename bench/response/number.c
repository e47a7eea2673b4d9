/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "number.h"

#include <err.h>
#include <errno.h>
#include <stdlib.h>

uint64_t number(const char *option, const char *text, uint64_t min, uint64_t max)
{
	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || value < min || value > max)
		errx(2, "--%s takes a number from %llu to %llu, not '%s'", option,
		     (unsigned long long)min, (unsigned long long)max, text);
	return value;
}
