/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/profile/real.h"

#include "base/next.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

struct tek_profile_real tek_prof__real;
bool tek_prof__is_found, tek_prof__is_looking;

static const struct {
	const char *name;
	size_t at;
} functions[] = {
#define FUNCTION(name) {#name, offsetof(struct tek_profile_real, name)},
#include "preload/profile/functions.h"
#undef FUNCTION
};

bool tek_prof__is_same_library(const void *one, const void *other)
{
	Dl_info of_one, of_other;

	return dladdr(one, &of_one) && dladdr(other, &of_other) &&
	       of_one.dli_fbase == of_other.dli_fbase;
}

static void find(size_t i)
{
	void *function = tek__next_definition(functions[i].name);

	memcpy((char *)&tek_prof__real + functions[i].at, &function, sizeof(function));
}

void tek_prof__find_real(size_t at)
{
	/*
	 * What the loader calls meanwhile, and what that calls: malloc() and its family are served
	 * by alloc.c.
	 */
	if (tek_prof__is_looking) {
		for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
			if (functions[i].at == at)
				find(i);
		return;
	}
	tek_prof__is_looking = true;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		find(i);
	tek_prof__is_found = true;
}
