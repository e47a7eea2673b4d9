/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The parser of profiles: any bytes, and only sensible kinds. */
#include "stack/profile.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_place(const struct tek_place *place)
{
	size_t length = strnlen(place->module, sizeof(place->module));

	if (length == sizeof(place->module) || !length ||
	    (place->module[0] != '@' && strspn(place->module, "0123456789abcdefABCDEF") != length))
		abort();
}

static void check(const struct tek_learnt *learnt, void *count)
{
	check_place(&learnt->function);
	if (learnt->caller.module[0])
		check_place(&learnt->caller);
	if (learnt->bound_bytes > TEK_PROFILE_MOST_STACK ||
	    learnt->overflow_bytes > TEK_PROFILE_MOST_STACK ||
	    ++*(unsigned int *)count > TEK_PROFILE_MOST_KINDS)
		abort();
}

/* Once as it is; once behind what few inputs would find by themselves. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char begin[] = "tek-stack-profile 1\nkind function=ab+0x1 bound=1 threads=1 ";
	unsigned int count = 0;
	char *text = malloc(sizeof(begin) + size);

	memcpy(text, begin, sizeof(begin) - 1);
	memcpy(text + sizeof(begin) - 1, data, size);
	text[sizeof(begin) - 1 + size] = '\n';
	if (!tek__profile_parse(text, sizeof(begin) + size, check, &count))
		abort();
	memcpy(text, data, size);
	text = realloc(text, size ? size : 1); /* so that reading behind its end is noticed */
	count = 0;
	if (tek__profile_parse(text, size, check, &count) &&
	    (size < 20 || memcmp(text, "tek-stack-profile 1\n", 20) != 0))
		abort();
	free(text);
	return 0;
}
