/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "maps.h"

#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_address(const void *one, const void *other)
{
	const struct range *a = one, *b = other;
	return (a->low > b->low) - (a->low < b->low);
}

static FILE *opened(const char *path)
{
	FILE *file = fopen(path, "re");
	if (!file)
		err(EXIT_FAILURE, "cannot open %s", path);
	return file;
}

void maps_measure(struct range *ranges, size_t count)
{
	char line[512];
	FILE *maps = opened("/proc/self/maps");

	qsort(ranges, count, sizeof(*ranges), by_address);
	for (size_t i = 0; i < count; i++)
		ranges[i].mapped = 0;
	/* Both are in the order of addresses. */
	for (size_t first = 0; fgets(line, sizeof(line), maps);) {
		uintptr_t low, end;
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &low, &end) != 2)
			continue;
		while (first < count && ranges[first].end <= low)
			first++;
		for (size_t i = first; i < count && ranges[i].low < end; i++) {
			uintptr_t from = ranges[i].low > low ? ranges[i].low : low;
			uintptr_t to = ranges[i].end < end ? ranges[i].end : end;
			ranges[i].mapped += to - from;
		}
	}
	fclose(maps);
}

static uint64_t bytes_in(const char *path, const char *name)
{
	char line[256];
	size_t length = strlen(name);
	FILE *file = opened(path);
	uint64_t kib = 0;

	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, name, length) && line[length] == ':')
			kib = strtoull(line + length + 1, NULL, 10);
	fclose(file);
	return kib * 1024;
}

uint64_t resident_bytes(void)
{
	return bytes_in("/proc/self/smaps_rollup", "Rss");
}

uint64_t status_bytes(const char *name)
{
	return bytes_in("/proc/self/status", name);
}
