/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The reader of class names of std::thread: any text. */
#include "base/cxx_name.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char begin[] = "NSt6thread11_State_implINS_8_InvokerISt5tupleIJ";
	char *name = malloc(sizeof(begin) + size);

	/* Few inputs would find the beginning by themselves. */
	strcpy(name, begin);
	memcpy(name + strlen(begin), data, size);
	name[strlen(begin) + size] = '\0';
	if (tek__cxx_function_offset(name) % sizeof(void *))
		abort();
	free(name);
	return 0;
}
