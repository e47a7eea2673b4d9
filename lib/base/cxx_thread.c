/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/cxx_thread.h"

#include "base/cxx_name.h"

#include <string.h>

enum { MAX_NAME = 4096 };

/* A word at an address that may be anything: only if it lies in a file that is listed. */
static uintptr_t word_in_file(const struct tek_files *files, uintptr_t address)
{
	uintptr_t word = 0;

	files->note(address);
	if (files->has(address, sizeof(word)))
		memcpy(&word, (const void *)address, sizeof(word));
	return word;
}

const char *tek__cxx_class_of(const struct tek_files *files, uintptr_t vtable)
{
	uintptr_t type = word_in_file(files, vtable - sizeof(void *));
	uintptr_t name = type ? word_in_file(files, type + sizeof(void *)) : 0;

	files->note(name);
	for (size_t i = 0; i < MAX_NAME && files->has(name + i, 1); i++)
		if (!((const char *)name)[i])
			return (const char *)name;
	return NULL;
}

uintptr_t tek__cxx_function(const struct tek_files *files, uintptr_t routine, const void *argument)
{
	uintptr_t vtable, function = 0;

	memcpy(&vtable, argument, sizeof(vtable));
	const char *name = tek__cxx_class_of(files, vtable);
	if (!name)
		return routine;
	size_t offset = tek__cxx_function_offset(name);
	if (offset)
		memcpy(&function, (const char *)argument + offset, sizeof(function));
	files->note(function);
	/* Of a virtual member function it is not an address but a place in a vtable, plus 1. */
	return files->has(function, 1) ? function : vtable;
}
