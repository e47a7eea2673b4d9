/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Taking libtek.so out of any LD_PRELOAD, and putting another library in its place: the rest stays,
 * and no byte is written past the end.
 */
#include "exec/preload_list.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char name[] = "LD_PRELOAD=";
	char *entry = malloc(sizeof(name) + size);
	char *environment[] = {"A=1", entry, "B=2", NULL};

	memcpy(entry, name, sizeof(name) - 1);
	memcpy(entry + sizeof(name) - 1, data, size);
	entry[sizeof(name) - 1 + size] = '\0';

	static const char *const rest[] = {NULL, "/lib32/other.so"};
	for (size_t i = 0; i < 2; i++) {
		void *memory = malloc(tek__preload_list_size(environment, rest[i]));
		char *const *result = tek__preload_list_exchange(environment, rest[i], memory);
		if (strcmp(result[0], "A=1") != 0)
			abort();
		for (; *result; result++)
			if (strncmp(*result, name, sizeof(name) - 1) == 0 &&
			    (strstr(*result, "/libtek.so:") || strstr(*result, ":libtek.so:") ||
			     strstr(*result, "/libtek-alloc.so:")))
				abort();
		free(memory);
	}
	free(entry);
	return 0;
}
