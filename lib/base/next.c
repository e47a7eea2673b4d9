/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/next.h"

#include "base/definition.h"

#include <dlfcn.h>
#include <stddef.h>

/* The first file to search.  A library that was loaded with dlopen(3) comes after the C library. */
static const struct link_map *first_file(void)
{
	const struct link_map *own = tek__own_file(), *c_library = tek__c_library_file();

	for (const struct link_map *file = own; file; file = file->l_next)
		if (file == c_library)
			return own->l_next;
	return c_library;
}

void *tek__next_definition(const char *name)
{
	struct tek_definition found;

	for (const struct link_map *file = first_file(); file; file = file->l_next)
		if (tek__defined_in(file, name, &found))
			return found.is_resolver ? dlsym(RTLD_NEXT, name) : found.address;
	return NULL;
}
